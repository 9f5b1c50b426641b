-- Runs that were held against their estimate: what was measured of an instance, what the sizing had said.

CREATE TABLE size_run(
    project TEXT NOT NULL, instance TEXT NOT NULL, family TEXT NOT NULL, framework TEXT NOT NULL, task TEXT NOT NULL,
    estimate INTEGER NOT NULL CHECK(estimate > 0), measured INTEGER NOT NULL CHECK(measured > 0),
    at INTEGER NOT NULL, PRIMARY KEY(project, instance)
) STRICT, WITHOUT ROWID;
CREATE INDEX size_run_latest ON size_run(project, at);
