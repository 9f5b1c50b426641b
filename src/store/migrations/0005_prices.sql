-- Price books per currency, prices with tiers and a day cap, a second
-- approver. Amounts in micro-units, instants *_s in whole seconds.

DROP TRIGGER price_version_fixed;
ALTER TABLE price_version ADD COLUMN currency TEXT NOT NULL DEFAULT 'CNY';
UPDATE price_version
    SET currency = coalesce((SELECT currency FROM project ORDER BY created_at, id LIMIT 1), 'CNY');
-- tiers after the first as "FROM:P;FROM:P", with the same d; '': one price
ALTER TABLE price_version ADD COLUMN tiers TEXT NOT NULL DEFAULT '';
-- cap_qty of quantity costs cap_u at most; 0: no cap
ALTER TABLE price_version ADD COLUMN cap_u INTEGER NOT NULL DEFAULT 0 CHECK(cap_u >= 0);
ALTER TABLE price_version ADD COLUMN cap_qty INTEGER NOT NULL DEFAULT 0 CHECK(cap_qty >= 0);
-- of a plan: what an early release gives back; the fee is a share of the discount (clawback)
ALTER TABLE price_version ADD COLUMN policy INTEGER NOT NULL DEFAULT 0;
ALTER TABLE price_version ADD COLUMN fee_pct INTEGER NOT NULL DEFAULT 0
    CHECK(fee_pct BETWEEN 0 AND 100);
CREATE TRIGGER price_version_fixed BEFORE UPDATE ON price_version
    BEGIN SELECT RAISE(ABORT, 'price versions never change'); END;
DROP INDEX price_version_sku;
CREATE INDEX price_version_sku ON price_version(sku, currency, valid_from_s);

-- a price that waits for a second operator; state 0 open, 1 approved, 2 withdrawn
CREATE TABLE price_proposal(
    id TEXT PRIMARY KEY, sku TEXT NOT NULL, currency TEXT NOT NULL,
    p INTEGER NOT NULL CHECK(p >= 0), d INTEGER NOT NULL CHECK(d > 0), unit TEXT NOT NULL,
    unit_u INTEGER NOT NULL, tiers TEXT NOT NULL, cap_u INTEGER NOT NULL, cap_qty INTEGER NOT NULL,
    policy INTEGER NOT NULL, fee_pct INTEGER NOT NULL, valid_from_s INTEGER NOT NULL,
    announced_s INTEGER NOT NULL, notice_s INTEGER NOT NULL,
    by_user TEXT NOT NULL, state INTEGER NOT NULL, decided_by TEXT NOT NULL,
    CHECK(state <> 1 OR (decided_by <> '' AND decided_by <> by_user))
) STRICT;
