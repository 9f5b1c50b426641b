-- Runs at the spot price that the platform took back: when it was decided, when they end by it, and
-- what makes their cards free. reversed_u: what of a window was given back, all of it or nothing.
CREATE TABLE reclaim(
    lease TEXT PRIMARY KEY, instance TEXT NOT NULL, decided_ms INTEGER NOT NULL,
    ends_ms INTEGER NOT NULL CHECK(ends_ms >= decided_ms),
    free_within_s INTEGER NOT NULL CHECK(free_within_s >= 0), reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;
ALTER TABLE rating_window ADD COLUMN reversed_u INTEGER NOT NULL DEFAULT 0
    CHECK(reversed_u = 0 OR reversed_u = posted_u);
