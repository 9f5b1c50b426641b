-- Sources of money beside cash: vouchers, gifts, the credit line; what a hold is made of; purchases;
-- payment channels. Amounts in micro-units, *_s whole seconds, other instants ms of the ledger clock.

-- scope: bits of the meters it pays, 0 all; sku '' any; gift 1: pays after the vouchers
CREATE TABLE voucher_batch(
    id TEXT PRIMARY KEY, note TEXT NOT NULL, currency TEXT NOT NULL,
    amount_u INTEGER NOT NULL CHECK(amount_u > 0), count INTEGER NOT NULL CHECK(count > 0),
    scope INTEGER NOT NULL, sku TEXT NOT NULL, gift INTEGER NOT NULL,
    expires_s INTEGER NOT NULL, per_project INTEGER NOT NULL CHECK(per_project > 0),
    at INTEGER NOT NULL, revoked_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- a code is known by its hash only; once redeemed it stays, so that it is never good again
CREATE TABLE voucher_code(
    hash TEXT PRIMARY KEY, batch TEXT NOT NULL REFERENCES voucher_batch(id),
    project TEXT NOT NULL, at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX voucher_code_batch ON voucher_code(batch, project);
-- money with an end: account voucher.<id>; batch '': given by the operator without a code
CREATE TABLE fund_grant(
    id TEXT PRIMARY KEY, project TEXT NOT NULL, batch TEXT NOT NULL,
    amount_u INTEGER NOT NULL CHECK(amount_u > 0), scope INTEGER NOT NULL, sku TEXT NOT NULL,
    gift INTEGER NOT NULL, expires_s INTEGER NOT NULL, at INTEGER NOT NULL,
    done_at INTEGER NOT NULL -- used up or lapsed to the last unit
) STRICT, WITHOUT ROWID;
CREATE INDEX fund_grant_open ON fund_grant(project) WHERE done_at = 0;
CREATE INDEX fund_grant_project ON fund_grant(project, batch);

CREATE TABLE credit_line(
    project TEXT PRIMARY KEY, limit_u INTEGER NOT NULL CHECK(limit_u >= 0), at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- a live hold: pending transfers over the sources; each pays one meter (-1: any) up to until_s
CREATE TABLE hold_part(
    transfer TEXT PRIMARY KEY REFERENCES transfer(id), lease TEXT NOT NULL, n INTEGER NOT NULL,
    account TEXT NOT NULL, meter INTEGER NOT NULL, until_s INTEGER NOT NULL,
    amount_u INTEGER NOT NULL CHECK(amount_u >= 0),
    used_u INTEGER NOT NULL CHECK(used_u >= 0), CHECK(used_u <= amount_u)
) STRICT, WITHOUT ROWID;
CREATE INDEX hold_part_lease ON hold_part(lease, n);
INSERT INTO hold_part(transfer, lease, n, account, meter, until_s, amount_u, used_u)
    SELECT f.hold, f.lease, 0, 'cash.' || f.project, -1, 9223372036854775807, f.hold_u,
           coalesce((SELECT sum(w.rated_u - w.posted_u) FROM rating_window w
                     WHERE w.project = f.project AND w.lease = f.lease
                       AND w.rated_u <> w.posted_u), 0)
    FROM fund_lease f WHERE f.hold <> '';

-- something bought at once: who paid what, and what came back of it
CREATE TABLE purchase(
    id TEXT PRIMARY KEY, project TEXT NOT NULL, account TEXT NOT NULL, at INTEGER NOT NULL,
    voucher_u INTEGER NOT NULL, gift_u INTEGER NOT NULL, cash_u INTEGER NOT NULL,
    credit_u INTEGER NOT NULL, back_gift_u INTEGER NOT NULL, back_cash_u INTEGER NOT NULL,
    back_credit_u INTEGER NOT NULL, lapsed_u INTEGER NOT NULL, refunds INTEGER NOT NULL,
    CHECK(back_gift_u <= gift_u), CHECK(back_cash_u <= cash_u), CHECK(back_credit_u <= credit_u),
    CHECK(lapsed_u <= voucher_u)
) STRICT, WITHOUT ROWID;
CREATE INDEX purchase_project ON purchase(project, at);

-- kind 0: built-in test channel; 1: notices signed with HMAC; 2: with Ed25519 (key: the public one)
CREATE TABLE channel(
    name TEXT PRIMARY KEY, kind INTEGER NOT NULL, key TEXT NOT NULL, pay TEXT NOT NULL,
    at INTEGER NOT NULL, off INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- state 0: waits for its payment, 1: paid
CREATE TABLE topup_order(
    id TEXT PRIMARY KEY, project TEXT NOT NULL, channel TEXT NOT NULL REFERENCES channel(name),
    amount_u INTEGER NOT NULL CHECK(amount_u > 0), currency TEXT NOT NULL, state INTEGER NOT NULL,
    at INTEGER NOT NULL, until INTEGER NOT NULL, paid_at INTEGER NOT NULL, reference TEXT NOT NULL,
    refunded_u INTEGER NOT NULL CHECK(refunded_u >= 0), CHECK(refunded_u <= amount_u)
) STRICT, WITHOUT ROWID;
CREATE INDEX topup_order_project ON topup_order(project, at);
-- one payment of a channel is one credit
CREATE UNIQUE INDEX topup_order_payment ON topup_order(channel, reference) WHERE state = 1;
CREATE TABLE channel_nonce(
    channel TEXT NOT NULL, nonce TEXT NOT NULL, hash TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY(channel, nonce)
) STRICT, WITHOUT ROWID;
CREATE INDEX channel_nonce_at ON channel_nonce(at);

CREATE INDEX transfer_dr ON transfer(dr, seq);
CREATE INDEX transfer_cr ON transfer(cr, seq);
