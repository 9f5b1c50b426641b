-- The spine: who, nodes, instances, leases, disks, images, and what every command leaves behind.
-- Times are ms UTC of the ledger clock, sizes MiB; an absent reference is NULL, an absent text ''.
-- Enums are the numbers of types.h, which are only ever appended to.

CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE project(
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, currency TEXT NOT NULL, zone TEXT NOT NULL,
  created_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE user(
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, is_operator INTEGER NOT NULL,
  project TEXT REFERENCES project, created_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE member(
  project TEXT NOT NULL REFERENCES project, user TEXT NOT NULL REFERENCES user,
  role INTEGER NOT NULL, PRIMARY KEY(project, user)) STRICT, WITHOUT ROWID;
CREATE INDEX member_user ON member(user);
CREATE TABLE token(
  id TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES user, project TEXT REFERENCES project,
  hash TEXT NOT NULL UNIQUE, label TEXT NOT NULL, role INTEGER NOT NULL,
  created_at INTEGER NOT NULL, used_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX token_user ON token(user);
CREATE TABLE login_code(
  hash TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES user,
  expires_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE ssh_key(
  id TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES user, name TEXT NOT NULL,
  public_key TEXT NOT NULL, fingerprint TEXT NOT NULL, created_at INTEGER NOT NULL,
  UNIQUE(user, name)) STRICT, WITHOUT ROWID;

CREATE TABLE node(
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, state INTEGER NOT NULL, drain INTEGER NOT NULL,
  seen_at INTEGER NOT NULL, boot TEXT NOT NULL, anchor_ms INTEGER NOT NULL,
  version INTEGER NOT NULL, cores INTEGER NOT NULL, memory_mib INTEGER NOT NULL,
  disk_mib INTEGER NOT NULL, driver TEXT NOT NULL, cuda TEXT NOT NULL, runtime TEXT NOT NULL,
  cgroup TEXT NOT NULL, kernel TEXT NOT NULL, ssh_host TEXT NOT NULL, port_min INTEGER NOT NULL,
  port_max INTEGER NOT NULL, simulated INTEGER NOT NULL,
  online_grow INTEGER NOT NULL,
  removed INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID; -- what was there keeps naming it
CREATE TABLE node_secret(
  node TEXT PRIMARY KEY REFERENCES node ON DELETE CASCADE,
  hash TEXT NOT NULL UNIQUE) STRICT, WITHOUT ROWID;
CREATE TABLE node_gpu(
  node TEXT NOT NULL REFERENCES node ON DELETE CASCADE, uuid TEXT NOT NULL, model TEXT NOT NULL,
  memory_mib INTEGER NOT NULL, simulated INTEGER NOT NULL, healthy INTEGER NOT NULL,
  util_pct INTEGER NOT NULL, PRIMARY KEY(node, uuid)) STRICT, WITHOUT ROWID;
CREATE TABLE node_boot(
  node TEXT NOT NULL REFERENCES node ON DELETE CASCADE, boot TEXT NOT NULL,
  anchor_ms INTEGER NOT NULL, ack_seq INTEGER NOT NULL, last_boot_ms INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  PRIMARY KEY(node, boot)) STRICT, WITHOUT ROWID;
CREATE TABLE node_unknown(
  node TEXT NOT NULL REFERENCES node ON DELETE CASCADE, lease TEXT NOT NULL, pid INTEGER NOT NULL,
  seen_at INTEGER NOT NULL, PRIMARY KEY(node, lease)) STRICT, WITHOUT ROWID;

CREATE TABLE instance(
  id TEXT PRIMARY KEY, project TEXT NOT NULL REFERENCES project,
  owner TEXT NOT NULL REFERENCES user, name TEXT NOT NULL, labels TEXT NOT NULL,
  state INTEGER NOT NULL, reason INTEGER NOT NULL, why TEXT NOT NULL, since INTEGER NOT NULL,
  created_at INTEGER NOT NULL, ends_at INTEGER NOT NULL, "then" INTEGER NOT NULL,
  kept_until INTEGER NOT NULL, gpu_model TEXT NOT NULL, gpu_count INTEGER NOT NULL,
  cpu_milli INTEGER NOT NULL, memory_mib INTEGER NOT NULL, system_disk_mib INTEGER NOT NULL,
  no_gpu INTEGER NOT NULL, simulated INTEGER NOT NULL, plan INTEGER NOT NULL,
  image TEXT NOT NULL, image_name TEXT NOT NULL, node TEXT REFERENCES node, lease TEXT,
  system_disk TEXT, host_key TEXT NOT NULL, idle_s INTEGER NOT NULL, idle_action INTEGER NOT NULL,
  price_gpu TEXT NOT NULL, price_cpu TEXT NOT NULL,
  version INTEGER NOT NULL) STRICT, WITHOUT ROWID;
-- a name is free again when its instance is released (8) or failed (9)
CREATE UNIQUE INDEX instance_name ON instance(project, name) WHERE state NOT IN (8, 9);
CREATE INDEX instance_project ON instance(project, id);
CREATE INDEX instance_state ON instance(state) WHERE state NOT IN (8, 9);
CREATE TABLE instance_port(
  instance TEXT NOT NULL REFERENCES instance, guest INTEGER NOT NULL, host INTEGER NOT NULL,
  node TEXT REFERENCES node, PRIMARY KEY(instance, guest),
  UNIQUE(node, host)) STRICT, WITHOUT ROWID;
CREATE TABLE instance_spec(
  instance TEXT PRIMARY KEY REFERENCES instance, argv TEXT NOT NULL,
  env TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE lease(
  id TEXT PRIMARY KEY, instance TEXT NOT NULL REFERENCES instance,
  node TEXT NOT NULL REFERENCES node, epoch INTEGER NOT NULL, state INTEGER NOT NULL,
  gpu_count INTEGER NOT NULL, granted_at INTEGER NOT NULL, ready_at INTEGER NOT NULL,
  stop_at INTEGER NOT NULL, ended_at INTEGER NOT NULL, paid_until INTEGER NOT NULL,
  ends_at INTEGER NOT NULL, evidence_until INTEGER NOT NULL, grace_ms INTEGER NOT NULL,
  reason INTEGER NOT NULL, hold TEXT NOT NULL, exit_code INTEGER NOT NULL,
  "limit" INTEGER NOT NULL, cpu_milli INTEGER NOT NULL, memory_mib INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX lease_instance ON lease(instance);
-- one lease at a time for an instance: 4 is closed
CREATE UNIQUE INDEX lease_one ON lease(instance) WHERE state <> 4;
CREATE INDEX lease_live ON lease(node) WHERE state <> 4;
CREATE TABLE lease_gpu(
  lease TEXT NOT NULL REFERENCES lease, slot INTEGER NOT NULL, uuid TEXT NOT NULL,
  live INTEGER NOT NULL, PRIMARY KEY(lease, slot)) STRICT, WITHOUT ROWID;
-- S1: a card is in at most one live lease
CREATE UNIQUE INDEX lease_gpu_one ON lease_gpu(uuid) WHERE live;
CREATE TABLE lease_fact(
  lease TEXT PRIMARY KEY REFERENCES lease, step INTEGER NOT NULL, step_count INTEGER NOT NULL,
  detail TEXT NOT NULL, disk_used_mib INTEGER NOT NULL, memory_peak_mib INTEGER NOT NULL,
  gpu_memory_peak_mib INTEGER NOT NULL, idle_s INTEGER NOT NULL, report_ok INTEGER NOT NULL,
  report TEXT, said_at INTEGER NOT NULL, idle_cards INTEGER NOT NULL,
  cards_ok INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE lease_gap(
  lease TEXT NOT NULL REFERENCES lease, from_ms INTEGER NOT NULL, to_ms INTEGER NOT NULL,
  PRIMARY KEY(lease, from_ms)) STRICT, WITHOUT ROWID;
CREATE TABLE log_chunk(
  lease TEXT NOT NULL REFERENCES lease, from_byte INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY(lease, from_byte)) STRICT;

CREATE TABLE disk(
  id TEXT PRIMARY KEY, project TEXT NOT NULL REFERENCES project, node TEXT REFERENCES node,
  instance TEXT REFERENCES instance, name TEXT NOT NULL, kind INTEGER NOT NULL,
  life INTEGER NOT NULL, size_mib INTEGER NOT NULL, used_mib INTEGER NOT NULL,
  mount TEXT NOT NULL, created_at INTEGER NOT NULL, ready_at INTEGER NOT NULL,
  kept_until INTEGER NOT NULL, erased_method TEXT NOT NULL, erased_bytes INTEGER NOT NULL,
  erase_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
-- data disks (1) that are not being erased (2) or erased (3) have a name of their own
CREATE UNIQUE INDEX disk_name ON disk(project, name) WHERE kind = 1 AND life < 2;
CREATE INDEX disk_instance ON disk(instance);
CREATE INDEX disk_node ON disk(node) WHERE life <> 3;

CREATE TABLE image(
  name TEXT PRIMARY KEY, digest TEXT NOT NULL, source TEXT NOT NULL, bytes INTEGER NOT NULL,
  need_driver TEXT NOT NULL, need_cuda TEXT NOT NULL, is_default INTEGER NOT NULL,
  created_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE node_image(
  node TEXT NOT NULL REFERENCES node ON DELETE CASCADE, digest TEXT NOT NULL,
  state TEXT NOT NULL, bytes INTEGER NOT NULL, error TEXT NOT NULL,
  PRIMARY KEY(node, digest)) STRICT, WITHOUT ROWID;

CREATE TABLE idem(
  project TEXT NOT NULL, key TEXT NOT NULL, hash TEXT NOT NULL, answer TEXT NOT NULL,
  at INTEGER NOT NULL, PRIMARY KEY(project, key)) STRICT, WITHOUT ROWID;
CREATE INDEX idem_at ON idem(at);
CREATE TABLE audit(
  id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, project TEXT NOT NULL,
  user TEXT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL, object TEXT NOT NULL,
  result TEXT NOT NULL, request_id TEXT NOT NULL) STRICT;
CREATE TRIGGER audit_never_changed BEFORE UPDATE ON audit
  BEGIN SELECT raise(ABORT, 'audit rows never change'); END;
CREATE TABLE event(
  id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, project TEXT NOT NULL,
  instance TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, data TEXT NOT NULL) STRICT;
CREATE INDEX event_project ON event(project, id);
CREATE TABLE outbox(
  id INTEGER PRIMARY KEY AUTOINCREMENT, node TEXT NOT NULL REFERENCES node ON DELETE CASCADE,
  kind TEXT NOT NULL, target TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  at INTEGER NOT NULL) STRICT;
CREATE INDEX outbox_node ON outbox(node);
