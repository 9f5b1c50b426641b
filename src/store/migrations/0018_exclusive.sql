-- A lease may have its node alone, at a surcharge (meter 6). Vouchers for compute pay it too.
ALTER TABLE instance ADD COLUMN exclusive INTEGER NOT NULL DEFAULT 0 CHECK(exclusive IN (0, 1));
ALTER TABLE lease ADD COLUMN exclusive INTEGER NOT NULL DEFAULT 0 CHECK(exclusive IN (0, 1));
ALTER TABLE fund_lease ADD COLUMN exclusive INTEGER NOT NULL DEFAULT 0 CHECK(exclusive IN (0, 1));
UPDATE voucher_batch SET scope = scope | 64 WHERE scope & 3 = 3;
UPDATE fund_grant SET scope = scope | 64 WHERE scope & 3 = 3;
