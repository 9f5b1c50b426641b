/* config.h: the node's configuration, read once at start by every role. "key = value" lines, '#'
 * starts a comment. Unknown and doubled keys are errors with a line number. Single thread. */
#pragma once

#include <stdio.h>

#include "node/drivers.h"

struct node_config {
    char state[256];
    char control[256]; /* "unix:/path" or "https://host:port" */
    char ca_file[256]; /* "" not set */
    char token_file[300];
    char user[32]; /* of the agent */
    struct node_net net;
    char ssh_host[128];
    char gpu[128]; /* spec of gpu_open(); its seed is the state folder */
    char gpu_knobs[256];
    char nvidia_proc[128];
    char runtime[16];    /* "auto", "crun", "runc" */
    char ssh_server[16]; /* "auto", "openssh", "dropbear" */
    int64_t slice_s;
    int64_t pool_mib; /* 0: what the file system has */
    char images[256];
    bool private_registries; /* registries at private addresses, also without TLS */
    char cgroup[128];        /* "/suanli-<tag>" */
    struct node_paths paths;
};

/* Fills all defaults, reads path (NULL: defaults only), checks the whole.
 * ERR_VALIDATION {field, why}: field is "FILE:LINE" or the key. */
enum err config_load(const char *path, struct node_config *ret_cfg, struct refusal *why);
/* Every key with its value and help, in a form that config_load reads back. */
void config_print(const struct node_config *cfg, FILE *out);
