-- The line. queue_project: what the operator set for a project (without a row: share 1, no limit,
-- priority 0). queue_wait: what those that wait were told last; times in ms, 0: cannot be said.
CREATE TABLE queue_project(
    project TEXT PRIMARY KEY REFERENCES project(id), share INTEGER NOT NULL CHECK(share >= 0),
    cards_max INTEGER NOT NULL CHECK(cards_max >= 0), priority INTEGER NOT NULL CHECK(priority >= 0)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue_wait(
    instance TEXT PRIMARY KEY REFERENCES instance(id), place INTEGER NOT NULL,
    waiting INTEGER NOT NULL, early INTEGER NOT NULL, likely INTEGER NOT NULL,
    late INTEGER NOT NULL, node TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- How long leases ran against what was announced: the latest ones are read again and again.
CREATE INDEX lease_ended ON lease(ended_at);
