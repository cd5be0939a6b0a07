/* Which time of a process counts against it while it does not finish. */
#include "runtime/os/os_clock.h"

static const double MOST_WALL = 1;       /* the longest gap, in seconds, between two readings that counts
                                            in full */
static const double ASLEEP_SHARE = 0.01; /* of an interval: a process that needed less of it slept */

static double increase_of(double now, double before)
{
    return now > before ? now - before : 0; /* a thread that ended takes its time with it */
}

double clef__os_usage_counts(const clef__os_usage *before, const clef__os_usage *now, double wall, int is_cpu)
{
    const double ran = increase_of(now->ran, before->ran), waited = increase_of(now->waited, before->waited);
    const double time = wall < MOST_WALL ? wall : MOST_WALL;
    const double wanted = ran + waited < time ? ran + waited : time;
    if (now->n_stopped || time <= 0)
        return 0;
    if (wanted <
        ASLEEP_SHARE * time) /* waiting is only added up when it ends, and a ready thread may still wait */
        return now->n_ready || (is_cpu && now->n_on_disk) ? 0 : time;
    const double got = wanted * ran / (ran + waited);
    return is_cpu ? got : time - (wanted - got);
}
