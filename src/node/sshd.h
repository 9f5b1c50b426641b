/* sshd.h: SSH in any image: our server with its loader and libraries in one read-only folder
 * (guest: /.suanli), and one small folder per lease (guest: /.suanli/lease). */
#pragma once

#include "node/guest.h"

/* Collects the server, its libraries, PID 1 and the shim into STATE/priv/ssh-<sum>/ (unless it is
 * there already) and binds it to RUN/ssh. want: "auto" or one of them. ret_server: "openssh",
 * "dropbear" or "none". Blocking. */
enum err sshd_bundle_init(const struct node_paths *p, const char *want, char ret_server[16],
                          struct refusal *why);

/* The instance's ed25519 key, made once and kept until sshd_host_key_forget; public line out. */
enum err sshd_host_key(const struct node_paths *p, struct id instance, char ret_line[256],
                       struct refusal *why);
void sshd_host_key_forget(const struct node_paths *p, struct id instance);

/* The lease's folder: configuration, key, empty list of keys. env: "K=V" texts for sessions. */
enum err sshd_lease_write(const struct node_paths *p, struct id lease, struct id instance,
                          uint32_t owner, const char *const *env, size_t env_count,
                          struct refusal *why);
/* Whole new list; at once effective. Only plain "type base64 comment" lines are taken. */
enum err sshd_keys_set(const struct node_paths *p, struct id lease, uint32_t owner,
                       const char *text, struct refusal *why);
/* What is shown at login: the report and, below it, every notice. */
enum err sshd_report_set(const struct node_paths *p, struct id lease, uint32_t owner,
                         const char *text, struct refusal *why);
enum err sshd_notice_add(const struct node_paths *p, struct id lease, uint32_t owner,
                         const char *text, struct refusal *why);
