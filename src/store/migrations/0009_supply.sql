-- Suppliers: whose machines earn, what they earned, what was paid out to them.

CREATE TABLE supplier(
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, user TEXT NOT NULL UNIQUE,
    share_n INTEGER NOT NULL CHECK(share_n >= 0), share_d INTEGER NOT NULL CHECK(share_d >= share_n AND share_d > 0),
    dispute_s INTEGER NOT NULL CHECK(dispute_s >= 0), threshold_u INTEGER NOT NULL CHECK(threshold_u >= 0),
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE supplier_node(
    node TEXT PRIMARY KEY, supplier TEXT NOT NULL REFERENCES supplier(id), since_ms INTEGER NOT NULL
) STRICT;

-- What of a source (a rating window, or a plan) was shared so far: shared = floor(gross x n / d). The share
-- and the supplier are those of the first posting.
CREATE TABLE supplier_gross(
    source TEXT PRIMARY KEY, supplier TEXT NOT NULL REFERENCES supplier(id), currency TEXT NOT NULL,
    share_n INTEGER NOT NULL, share_d INTEGER NOT NULL CHECK(share_d > 0),
    gross_u INTEGER NOT NULL CHECK(gross_u >= 0), shared_u INTEGER NOT NULL CHECK(shared_u >= 0), posts INTEGER NOT NULL,
    CHECK(shared_u <= gross_u)
) STRICT;
CREATE INDEX supplier_gross_supplier ON supplier_gross(supplier, currency);

-- what came into held on a day, to be released when the dispute window is over
CREATE TABLE supplier_day(
    supplier TEXT NOT NULL REFERENCES supplier(id), currency TEXT NOT NULL, day INTEGER NOT NULL,
    held_u INTEGER NOT NULL CHECK(held_u >= 0), released INTEGER NOT NULL CHECK(released IN (0, 1)),
    PRIMARY KEY(supplier, currency, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE payout(
    id TEXT PRIMARY KEY, supplier TEXT NOT NULL REFERENCES supplier(id), currency TEXT NOT NULL,
    amount_u INTEGER NOT NULL CHECK(amount_u > 0), carried_u INTEGER NOT NULL,
    at INTEGER NOT NULL, reference TEXT NOT NULL, paid_at INTEGER NOT NULL
) STRICT;
CREATE INDEX payout_supplier ON payout(supplier, at);
CREATE TRIGGER payout_fixed BEFORE UPDATE ON payout WHEN old.supplier<>new.supplier
    OR old.currency<>new.currency OR old.amount_u<>new.amount_u OR old.carried_u<>new.carried_u OR old.at<>new.at
    OR old.paid_at<>0
    BEGIN SELECT RAISE(ABORT, 'payouts never change'); END;
CREATE TRIGGER payout_kept BEFORE DELETE ON payout BEGIN SELECT RAISE(ABORT, 'payouts are kept'); END;
