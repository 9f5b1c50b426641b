-- The books: prices, ledger, what was used, what it cost. Amounts in micro-units, instants *_s in
-- whole seconds and *_ms in milliseconds of the ledger clock. The rules are in src/domain; what a
-- constraint can prove is proven here a second time.

CREATE TABLE price_version(
    id TEXT PRIMARY KEY, sku TEXT NOT NULL,
    p INTEGER NOT NULL CHECK(p >= 0), d INTEGER NOT NULL CHECK(d > 0),
    unit TEXT NOT NULL, unit_u INTEGER NOT NULL CHECK(unit_u >= 0),
    valid_from_s INTEGER NOT NULL, announced_s INTEGER NOT NULL,
    notice_s INTEGER NOT NULL CHECK(notice_s >= 0)
) STRICT;
CREATE INDEX price_version_sku ON price_version(sku, valid_from_s);
CREATE TRIGGER price_version_fixed BEFORE UPDATE ON price_version
    BEGIN SELECT RAISE(ABORT, 'price versions never change'); END;
CREATE TRIGGER price_version_kept BEFORE DELETE ON price_version
    BEGIN SELECT RAISE(ABORT, 'price versions never go'); END;

-- flags 1: no overdraft (I3)
CREATE TABLE account(
    id TEXT PRIMARY KEY, ledger TEXT NOT NULL, flags INTEGER NOT NULL, lim INTEGER NOT NULL,
    dr_posted INTEGER NOT NULL CHECK(dr_posted >= 0),
    dr_pending INTEGER NOT NULL CHECK(dr_pending >= 0),
    cr_posted INTEGER NOT NULL CHECK(cr_posted >= 0),
    cr_pending INTEGER NOT NULL CHECK(cr_pending >= 0),
    CHECK((flags & 1) = 0 OR dr_posted + dr_pending <= cr_posted + lim)
) STRICT;

CREATE TABLE transfer(
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, ledger TEXT NOT NULL,
    dr TEXT NOT NULL REFERENCES account(id), cr TEXT NOT NULL REFERENCES account(id),
    amount INTEGER NOT NULL CHECK(amount >= 0), step INTEGER NOT NULL, pending TEXT NOT NULL,
    kind TEXT NOT NULL, grp TEXT NOT NULL, owner TEXT NOT NULL,
    effective_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, booked_ms INTEGER NOT NULL,
    prev_hash BLOB NOT NULL CHECK(length(prev_hash) = 32), hash BLOB NOT NULL CHECK(length(hash) = 32),
    CHECK(dr <> cr), CHECK((step IN (0, 1)) = (pending = '')), CHECK(step <> 1 OR expires_ms > 0)
) STRICT;
CREATE UNIQUE INDEX transfer_resolution ON transfer(pending) WHERE pending <> ''; -- I6
CREATE INDEX transfer_owner ON transfer(owner);
CREATE TRIGGER transfer_fixed BEFORE UPDATE ON transfer
    BEGIN SELECT RAISE(ABORT, 'the journal never changes'); END;
CREATE TRIGGER transfer_kept BEFORE DELETE ON transfer
    BEGIN SELECT RAISE(ABORT, 'the journal is kept'); END;

-- the head of the hash chain at the end of each day (UTC), to be published
CREATE TABLE ledger_day(
    day INTEGER PRIMARY KEY, seq INTEGER NOT NULL, hash BLOB NOT NULL CHECK(length(hash) = 32)
) STRICT;

CREATE TABLE topup(
    id TEXT PRIMARY KEY, project TEXT NOT NULL, amount INTEGER NOT NULL CHECK(amount > 0),
    note TEXT NOT NULL, at INTEGER NOT NULL
) STRICT;

-- one per (subject, meter, price version, month of the project's zone): costs F(qty)
CREATE TABLE rating_window(
    id TEXT PRIMARY KEY, project TEXT NOT NULL, instance TEXT NOT NULL, subject TEXT NOT NULL,
    lease TEXT NOT NULL, -- the last one whose hold pays for it; '' when none does
    meter INTEGER NOT NULL, sku TEXT NOT NULL, price TEXT NOT NULL REFERENCES price_version(id),
    year INTEGER NOT NULL, month INTEGER NOT NULL,
    qty INTEGER NOT NULL CHECK(qty >= 0), rated_u INTEGER NOT NULL,
    posted_u INTEGER NOT NULL CHECK(posted_u >= 0), posts INTEGER NOT NULL,
    from_s INTEGER NOT NULL, to_s INTEGER NOT NULL, simulated INTEGER NOT NULL,
    CHECK(posted_u <= rated_u), CHECK(from_s <= to_s),
    UNIQUE(subject, meter, price, year, month)
) STRICT;
CREATE INDEX rating_window_project ON rating_window(project, year, month);
CREATE INDEX rating_window_instance ON rating_window(instance);
CREATE INDEX rating_window_open ON rating_window(project) WHERE rated_u <> posted_u;

-- what leases were rated per day of the project's zone, for budgets (storage of stopped disks and
-- traffic cannot be stopped by a cap)
CREATE TABLE project_day(
    project TEXT NOT NULL, from_s INTEGER NOT NULL, rated_u INTEGER NOT NULL,
    PRIMARY KEY(project, from_s)
) STRICT, WITHOUT ROWID;

-- evidence of nodes as it came, once by (node, boot, seq); t0, t1 on the ledger clock
CREATE TABLE usage_slice(
    node TEXT NOT NULL, boot TEXT NOT NULL, seq INTEGER NOT NULL,
    lease TEXT NOT NULL, epoch INTEGER NOT NULL, running INTEGER NOT NULL, gpus_ok INTEGER NOT NULL,
    t0_ms INTEGER NOT NULL, t1_ms INTEGER NOT NULL, done INTEGER NOT NULL, received_ms INTEGER NOT NULL,
    cpu_us INTEGER NOT NULL, memory_bytes INTEGER NOT NULL, rx_bytes INTEGER NOT NULL,
    tx_bytes INTEGER NOT NULL, disk_used_mib INTEGER NOT NULL, gpu_util_pct INTEGER NOT NULL,
    gpu_memory_mib INTEGER NOT NULL, payload BLOB NOT NULL CHECK(length(payload) = 32),
    PRIMARY KEY(node, boot, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_slice_lease ON usage_slice(lease, t0_ms);
CREATE TABLE usage_boot(
    node TEXT NOT NULL, boot TEXT NOT NULL, ack_seq INTEGER NOT NULL, PRIMARY KEY(node, boot)
) STRICT, WITHOUT ROWID;

-- which seconds were rated into which window, and by which evidence (boot '' for disks)
CREATE TABLE usage_span(
    id INTEGER PRIMARY KEY, rating_window TEXT NOT NULL REFERENCES rating_window(id),
    from_s INTEGER NOT NULL, to_s INTEGER NOT NULL, qty_per_s INTEGER NOT NULL,
    qty INTEGER NOT NULL, -- (to - from) x qty_per_s, or bytes
    node TEXT NOT NULL, boot TEXT NOT NULL, seq INTEGER NOT NULL, CHECK(from_s <= to_s)
) STRICT;
CREATE INDEX usage_span_window ON usage_span(rating_window, from_s);
CREATE INDEX usage_span_slice ON usage_span(node, boot, seq);

CREATE TABLE fund_lease(
    lease TEXT PRIMARY KEY, project TEXT NOT NULL, instance TEXT NOT NULL, node TEXT NOT NULL,
    epoch INTEGER NOT NULL, meter INTEGER NOT NULL, sku TEXT NOT NULL, qty_per_s INTEGER NOT NULL,
    simulated INTEGER NOT NULL, started_s INTEGER NOT NULL, held_from_s INTEGER NOT NULL,
    ready_ms INTEGER NOT NULL, stop_ms INTEGER NOT NULL, ends_at INTEGER NOT NULL,
    paid_until_s INTEGER NOT NULL, cursor_ms INTEGER NOT NULL, billed_s INTEGER NOT NULL,
    hold TEXT NOT NULL, hold_u INTEGER NOT NULL CHECK(hold_u >= 0), terms INTEGER NOT NULL,
    settled INTEGER NOT NULL
) STRICT;
CREATE INDEX fund_lease_project ON fund_lease(project) WHERE settled = 0;
CREATE INDEX fund_lease_instance ON fund_lease(instance);

-- meter: what runs for a disk now; 6: nothing (free)
CREATE TABLE fund_disk(
    disk TEXT PRIMARY KEY, project TEXT NOT NULL, instance TEXT NOT NULL, node TEXT NOT NULL,
    lease TEXT NOT NULL, kind INTEGER NOT NULL, size_mib INTEGER NOT NULL, meter INTEGER NOT NULL,
    before INTEGER NOT NULL, started_s INTEGER NOT NULL, cursor_s INTEGER NOT NULL,
    simulated INTEGER NOT NULL, closed INTEGER NOT NULL
) STRICT;
CREATE INDEX fund_disk_node ON fund_disk(node) WHERE closed = 0;
CREATE INDEX fund_disk_lease ON fund_disk(lease) WHERE lease <> '';
CREATE INDEX fund_disk_project ON fund_disk(project) WHERE closed = 0;

CREATE TABLE fund_project(
    project TEXT PRIMARY KEY, arrears_since INTEGER NOT NULL, posted_at INTEGER NOT NULL,
    alert INTEGER NOT NULL
) STRICT;

-- period 0 total, 1 month, 2 day
CREATE TABLE budget(
    project TEXT NOT NULL, name TEXT NOT NULL, cap_u INTEGER NOT NULL CHECK(cap_u >= 0),
    period INTEGER NOT NULL, PRIMARY KEY(project, name)
) STRICT, WITHOUT ROWID;
