/* cmd_replay.c: admin replay, of a queue of jobs or of a pool with spot in it. */
#include "cli/replay.h"

int cmd_replay(struct cli *c, struct call *call)
{
    bool spot = arg_bool(call, "spot");

    if (spot && !arg_str(call, "jobs"))
        return replay_spot(c, call);
    if (!spot && arg_str(call, "jobs"))
        return replay_jobs(c, call);
    return fail_usage(c, "%s",
                      tr("give --jobs FILE, or --spot with --nodes FILE and --tasks FILE"));
}
