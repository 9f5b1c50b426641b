-- Reconciliation: every line of a channel's payment files, once; and exchange of currencies.

-- kind 0 payment, 1 refund. state 0 matched, 1 in suspense, 2 resolved. order_id: as the file names it
CREATE TABLE payment_line(
    id INTEGER PRIMARY KEY, channel TEXT NOT NULL REFERENCES channel(name), kind INTEGER NOT NULL CHECK(kind IN (0, 1)),
    reference TEXT NOT NULL, order_id TEXT NOT NULL, amount_u INTEGER NOT NULL CHECK(amount_u > 0),
    currency TEXT NOT NULL, at INTEGER NOT NULL, file TEXT NOT NULL, imported_at INTEGER NOT NULL,
    state INTEGER NOT NULL CHECK(state IN (0, 1, 2)), reason INTEGER NOT NULL,
    resolved_at INTEGER NOT NULL, resolution TEXT NOT NULL,
    UNIQUE(channel, kind, reference)
) STRICT;
CREATE INDEX payment_line_order ON payment_line(order_id);
CREATE INDEX payment_line_open ON payment_line(state) WHERE state = 1;

-- 1 unit of src = n/d of dst; spread of the amount in src; the newest row of a pair holds
CREATE TABLE fx_rate(
    src TEXT NOT NULL, dst TEXT NOT NULL, at INTEGER NOT NULL,
    n INTEGER NOT NULL CHECK(n > 0), d INTEGER NOT NULL CHECK(d > 0),
    spread_n INTEGER NOT NULL CHECK(spread_n >= 0), spread_d INTEGER NOT NULL CHECK(spread_d > spread_n),
    PRIMARY KEY(src, dst, at), CHECK(src <> dst)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER fx_rate_fixed BEFORE UPDATE ON fx_rate BEGIN SELECT RAISE(ABORT, 'rates never change'); END;
-- the rate that an order in another currency was made at
CREATE TABLE fx_order(
    order_id TEXT PRIMARY KEY REFERENCES topup_order(id), dst TEXT NOT NULL, n INTEGER NOT NULL, d INTEGER NOT NULL,
    spread_n INTEGER NOT NULL, spread_d INTEGER NOT NULL,
    fee_u INTEGER NOT NULL, converted_u INTEGER NOT NULL, dst_u INTEGER NOT NULL
) STRICT;
