-- Closed months: statements, tax, invoices, what came too late. Amounts *_u in micro-units, *_minor
-- in whole minor units of the currency. A statement is written and closed in one transaction; from
-- then on nothing of it changes, and its charges stay as they were.

-- everything before until_s is closed; months are closed in order
CREATE TABLE close_state(
    project TEXT PRIMARY KEY, until_s INTEGER NOT NULL, year INTEGER NOT NULL, month INTEGER NOT NULL
) STRICT;

-- what is taxed how: the longest prefix of the SKU in the country, valid from an instant on
CREATE TABLE tax_rule(
    country TEXT NOT NULL, prefix TEXT NOT NULL, from_s INTEGER NOT NULL, class TEXT NOT NULL,
    n INTEGER NOT NULL CHECK(n >= 0), d INTEGER NOT NULL CHECK(d > 0), inclusive INTEGER NOT NULL,
    PRIMARY KEY(country, prefix, from_s)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER tax_rule_fixed BEFORE UPDATE ON tax_rule
    BEGIN SELECT RAISE(ABORT, 'tax rules never change'); END;

-- role 'seller': the platform (project ''); role 'buyer': one per project
CREATE TABLE party(
    project TEXT PRIMARY KEY, name TEXT NOT NULL, tax_id TEXT NOT NULL, address TEXT NOT NULL,
    country TEXT NOT NULL, business INTEGER NOT NULL,
    id_valid INTEGER NOT NULL, id_checked_ms INTEGER NOT NULL, id_note TEXT NOT NULL
) STRICT;

CREATE TABLE statement(
    id TEXT PRIMARY KEY, project TEXT NOT NULL, year INTEGER NOT NULL, month INTEGER NOT NULL,
    zone TEXT NOT NULL, from_s INTEGER NOT NULL, to_s INTEGER NOT NULL, currency TEXT NOT NULL,
    minor_u INTEGER NOT NULL CHECK(minor_u > 0),
    series TEXT NOT NULL, seq INTEGER NOT NULL, number TEXT NOT NULL UNIQUE,
    closed_ms INTEGER NOT NULL, journal INTEGER NOT NULL, -- last transfer before the close's own
    line_count INTEGER NOT NULL, total_u INTEGER NOT NULL CHECK(total_u >= 0),
    residue_u INTEGER NOT NULL CHECK(residue_u >= 0 AND residue_u < minor_u),
    lines_minor INTEGER NOT NULL, net_minor INTEGER NOT NULL, tax_minor INTEGER NOT NULL,
    payable_minor INTEGER NOT NULL,
    seller TEXT NOT NULL, buyer TEXT NOT NULL, business INTEGER NOT NULL, id_valid INTEGER NOT NULL,
    category TEXT NOT NULL, reason TEXT NOT NULL, simulated INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    CHECK(total_u = lines_minor * minor_u + residue_u), CHECK(net_minor + tax_minor = payable_minor),
    UNIQUE(project, year, month), UNIQUE(series, seq)
) STRICT;
CREATE TRIGGER statement_fixed BEFORE UPDATE ON statement WHEN OLD.closed = 1
    BEGIN SELECT RAISE(ABORT, 'a closed statement never changes'); END;
CREATE TRIGGER statement_kept BEFORE DELETE ON statement
    BEGIN SELECT RAISE(ABORT, 'statements are kept'); END;

-- kind 0 usage, 1 correction (of a closed month), 2 other charge, 3 credit
CREATE TABLE statement_line(
    statement TEXT NOT NULL REFERENCES statement(id), n INTEGER NOT NULL, kind INTEGER NOT NULL,
    source TEXT NOT NULL, -- the window, the transfer, or the account that paid
    subject TEXT NOT NULL, subject_name TEXT NOT NULL, meter INTEGER NOT NULL, sku TEXT NOT NULL,
    price TEXT NOT NULL, qty_from INTEGER NOT NULL, qty_to INTEGER NOT NULL,
    amount_u INTEGER NOT NULL, printed_minor INTEGER NOT NULL, tax_group INTEGER NOT NULL,
    from_s INTEGER NOT NULL, to_s INTEGER NOT NULL,
    year INTEGER NOT NULL, month INTEGER NOT NULL, -- charge period
    simulated INTEGER NOT NULL, CHECK(qty_from <= qty_to),
    PRIMARY KEY(statement, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX statement_line_source ON statement_line(source);
CREATE TRIGGER statement_line_new BEFORE INSERT ON statement_line
    WHEN (SELECT closed FROM statement WHERE id = NEW.statement) = 1
    BEGIN SELECT RAISE(ABORT, 'a closed statement never changes'); END;
CREATE TRIGGER statement_line_fixed BEFORE UPDATE ON statement_line
    BEGIN SELECT RAISE(ABORT, 'a closed statement never changes'); END;
CREATE TRIGGER statement_line_kept BEFORE DELETE ON statement_line
    BEGIN SELECT RAISE(ABORT, 'statements are kept'); END;

CREATE TABLE statement_tax(
    statement TEXT NOT NULL REFERENCES statement(id), n INTEGER NOT NULL,
    country TEXT NOT NULL, class TEXT NOT NULL, category TEXT NOT NULL,
    rate_n INTEGER NOT NULL, rate_d INTEGER NOT NULL, inclusive INTEGER NOT NULL,
    base_minor INTEGER NOT NULL, net_minor INTEGER NOT NULL, tax_minor INTEGER NOT NULL,
    gross_minor INTEGER NOT NULL, CHECK(net_minor + tax_minor = gross_minor),
    PRIMARY KEY(statement, n)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER statement_tax_new BEFORE INSERT ON statement_tax
    WHEN (SELECT closed FROM statement WHERE id = NEW.statement) = 1
    BEGIN SELECT RAISE(ABORT, 'a closed statement never changes'); END;
CREATE TRIGGER statement_tax_fixed BEFORE UPDATE ON statement_tax
    BEGIN SELECT RAISE(ABORT, 'a closed statement never changes'); END;
CREATE TRIGGER statement_tax_kept BEFORE DELETE ON statement_tax
    BEGIN SELECT RAISE(ABORT, 'statements are kept'); END;

-- what was rated into a window whose month was closed already, and the month that bills it
CREATE TABLE late_usage(
    rating_window TEXT NOT NULL REFERENCES rating_window(id), project TEXT NOT NULL,
    year INTEGER NOT NULL, month INTEGER NOT NULL,
    qty_from INTEGER NOT NULL, qty_to INTEGER NOT NULL CHECK(qty_from <= qty_to),
    amount_u INTEGER NOT NULL CHECK(amount_u >= 0),
    from_s INTEGER NOT NULL, to_s INTEGER NOT NULL, received_ms INTEGER NOT NULL,
    PRIMARY KEY(rating_window, year, month)
) STRICT, WITHOUT ROWID;
CREATE INDEX late_usage_month ON late_usage(project, year, month);

-- kind 0 invoice, 1 credit note; the document is what was issued, word for word
CREATE TABLE invoice(
    number TEXT PRIMARY KEY, series TEXT NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL,
    project TEXT NOT NULL, statement TEXT NOT NULL REFERENCES statement(id), prev TEXT NOT NULL,
    reason TEXT NOT NULL, currency TEXT NOT NULL, issued_ms INTEGER NOT NULL,
    net_minor INTEGER NOT NULL, tax_minor INTEGER NOT NULL, payable_minor INTEGER NOT NULL,
    document TEXT NOT NULL, CHECK(net_minor + tax_minor = payable_minor),
    CHECK((kind = 1) = (prev <> '')), CHECK((kind = 1) = (payable_minor < 0)), UNIQUE(series, seq)
) STRICT;
CREATE INDEX invoice_statement ON invoice(statement);
CREATE INDEX invoice_prev ON invoice(prev) WHERE prev <> '';
CREATE TRIGGER invoice_fixed BEFORE UPDATE ON invoice
    BEGIN SELECT RAISE(ABORT, 'invoices never change'); END;
CREATE TRIGGER invoice_kept BEFORE DELETE ON invoice
    BEGIN SELECT RAISE(ABORT, 'invoices are kept'); END;
CREATE TABLE invoice_tax(
    invoice TEXT NOT NULL REFERENCES invoice(number), n INTEGER NOT NULL,
    net_minor INTEGER NOT NULL, tax_minor INTEGER NOT NULL, gross_minor INTEGER NOT NULL,
    CHECK(net_minor + tax_minor = gross_minor), PRIMARY KEY(invoice, n)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER invoice_tax_fixed BEFORE UPDATE ON invoice_tax
    BEGIN SELECT RAISE(ABORT, 'invoices never change'); END;
CREATE TRIGGER invoice_tax_kept BEFORE DELETE ON invoice_tax
    BEGIN SELECT RAISE(ABORT, 'invoices are kept'); END;

-- the number a tax gateway gave to one of ours
CREATE TABLE invoice_gateway(
    invoice TEXT PRIMARY KEY REFERENCES invoice(number), gateway_no TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL
) STRICT;
CREATE TRIGGER invoice_gateway_fixed BEFORE UPDATE ON invoice_gateway
    BEGIN SELECT RAISE(ABORT, 'a gateway number never changes'); END;
CREATE TRIGGER invoice_gateway_kept BEFORE DELETE ON invoice_gateway
    BEGIN SELECT RAISE(ABORT, 'gateway numbers are kept'); END;

-- what was put on a tab, by project: who has not paid a month yet gets no invoice of it
CREATE INDEX transfer_receivable ON transfer(dr, seq) WHERE dr >= 'receivable.' AND dr < 'receivable/';

-- the last change of a project's billing zone: before holds up to since_s, a border of its months
CREATE TABLE project_zone(
    project TEXT PRIMARY KEY, before TEXT NOT NULL, zone TEXT NOT NULL, since_s INTEGER NOT NULL
) STRICT;
