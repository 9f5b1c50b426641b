-- Traffic in is metered too (meter 7) where it has a price. Vouchers for traffic pay it.
UPDATE voucher_batch SET scope = scope | 128 WHERE scope & 32 = 32;
UPDATE fund_grant SET scope = scope | 128 WHERE scope & 32 = 32;
