-- Instances rented at the spot price. bid: the price version that no second costs more than;
-- free_within_s: how long a reclaim makes its cards free, as it was printed.
CREATE TABLE spot(
    instance TEXT PRIMARY KEY, bid TEXT NOT NULL REFERENCES price_version(id),
    free_within_s INTEGER NOT NULL CHECK(free_within_s >= 0)
) STRICT, WITHOUT ROWID;
