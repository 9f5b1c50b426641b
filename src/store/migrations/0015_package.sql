-- Resource packages. Quantities in card-seconds, amounts in micro-units, instants *_s in seconds.

-- sku: what it covers, "gpu.<model>" or "gpu"; price: what its covered seconds cost (0); offer: what
-- it was bought at. recognised_u: revenue so far; lapsed_u, lapsed: what its end found unused.
CREATE TABLE package(
    id TEXT PRIMARY KEY, project TEXT NOT NULL, sku TEXT NOT NULL,
    seconds INTEGER NOT NULL CHECK(seconds > 0),
    price TEXT NOT NULL REFERENCES price_version(id), offer TEXT NOT NULL,
    start_s INTEGER NOT NULL, expires_s INTEGER NOT NULL,
    paid_u INTEGER NOT NULL CHECK(paid_u >= 0),
    recognised_u INTEGER NOT NULL CHECK(recognised_u >= 0), recognised_s INTEGER NOT NULL,
    lapsed_u INTEGER NOT NULL CHECK(lapsed_u >= 0), lapsed INTEGER NOT NULL CHECK(lapsed >= 0),
    done_at INTEGER NOT NULL,
    CHECK(start_s < expires_s), CHECK(recognised_u + lapsed_u <= paid_u)
) STRICT;
CREATE INDEX package_project ON package(project);
CREATE INDEX package_open ON package(project) WHERE done_at = 0;

-- What the present hold of a lease has reserved of a package: one pending transfer on the package's
-- account. n: the order in which they are used; used: by what evidence proved.
CREATE TABLE package_part(
    transfer TEXT PRIMARY KEY, lease TEXT NOT NULL, n INTEGER NOT NULL,
    package TEXT NOT NULL REFERENCES package(id), price TEXT NOT NULL,
    from_s INTEGER NOT NULL, until_s INTEGER NOT NULL,
    amount INTEGER NOT NULL CHECK(amount > 0),
    used INTEGER NOT NULL CHECK(used >= 0 AND used <= amount)
) STRICT, WITHOUT ROWID;
CREATE INDEX package_part_lease ON package_part(lease);
CREATE INDEX package_part_package ON package_part(package);
