-- Proof: whose word the usage is. A node signs each slice (domain/evidence.h); its key is known from
-- its first report on, another one only after the operator trusts the node anew.

CREATE TABLE node_key(
    id INTEGER PRIMARY KEY, node TEXT NOT NULL, key BLOB NOT NULL CHECK(length(key) = 32),
    since_ms INTEGER NOT NULL, active INTEGER NOT NULL,
    told_ms INTEGER NOT NULL, -- when an event last said that its evidence is refused; 0: never
    UNIQUE(node, key)
) STRICT;
CREATE UNIQUE INDEX node_key_one ON node_key(node) WHERE active = 1;

-- the signature of a slice, with what was signed and is not in usage_slice: times on the node's own
-- boot clock, cards as the node saw them, and the place of that clock on the ledger clock
CREATE TABLE usage_signature(
    node TEXT NOT NULL, boot TEXT NOT NULL, seq INTEGER NOT NULL,
    node_key INTEGER NOT NULL REFERENCES node_key(id), anchor_ms INTEGER NOT NULL,
    t0_ms INTEGER NOT NULL, t1_ms INTEGER NOT NULL, gpus_ok INTEGER NOT NULL,
    sig BLOB NOT NULL CHECK(length(sig) = 64),
    PRIMARY KEY(node, boot, seq)
) STRICT, WITHOUT ROWID;
