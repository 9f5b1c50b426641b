-- Budgets of a project, a user or a label, and what each has spent per day of the project's zone.

-- scope 0 project (scope_of: empty), 1 user (his id), 2 label ("k=v"). notify 1: it warns and stops
-- nothing. alert_pct and alert_s: what was told in the period that began at alert_from_s.
ALTER TABLE budget ADD COLUMN scope INTEGER NOT NULL DEFAULT 0 CHECK(scope IN (0, 1, 2));
ALTER TABLE budget ADD COLUMN scope_of TEXT NOT NULL DEFAULT '';
ALTER TABLE budget ADD COLUMN notify INTEGER NOT NULL DEFAULT 0 CHECK(notify IN (0, 1));
ALTER TABLE budget ADD COLUMN alert_pct INTEGER NOT NULL DEFAULT 0;
ALTER TABLE budget ADD COLUMN alert_s INTEGER NOT NULL DEFAULT 0;
ALTER TABLE budget ADD COLUMN alert_from_s INTEGER NOT NULL DEFAULT 0;

-- whose money a lease spends: fixed when it opens
CREATE TABLE lease_scope(
    lease TEXT NOT NULL, scope INTEGER NOT NULL, scope_of TEXT NOT NULL,
    PRIMARY KEY(lease, scope, scope_of)
) STRICT, WITHOUT ROWID;
CREATE INDEX lease_scope_of ON lease_scope(scope_of, scope);
INSERT INTO lease_scope SELECT lease, 0, '' FROM fund_lease;
INSERT INTO lease_scope SELECT l.lease, 1, i.owner FROM fund_lease l JOIN instance i ON i.id = l.instance;
INSERT OR IGNORE INTO lease_scope
    SELECT l.lease, 2, j.value FROM fund_lease l JOIN instance i ON i.id = l.instance,
    json_each('["' || replace(i.labels, ',', '","') || '"]') j
    WHERE i.labels <> '' AND json_valid('["' || replace(i.labels, ',', '","') || '"]');

CREATE TABLE scope_day(
    project TEXT NOT NULL, scope INTEGER NOT NULL, scope_of TEXT NOT NULL, from_s INTEGER NOT NULL,
    rated_u INTEGER NOT NULL, PRIMARY KEY(project, scope, scope_of, from_s)
) STRICT, WITHOUT ROWID;
INSERT INTO scope_day SELECT project, 0, '', from_s, rated_u FROM project_day;
DROP TABLE project_day;
