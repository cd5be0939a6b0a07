/* The executor of command buffers where OpenCL's headers do not declare them (macOS): it runs nothing. */
#include "runtime/plan/plan.h"

const char *clef_device_command_buffers(clef_device *dev)
{
    (void)dev;
    return "this system's OpenCL has none (cl_khr_command_buffer)";
}

static clef_status prepare_nothing(clef_plan *plan, clef__execution *e, clef_error *err)
{
    (void)plan, (void)e, (void)err;
    return CLEF_OK;
}

static int run_nothing(clef_plan *plan, clef__execution *e, clef_status *status, clef_error *err)
{
    (void)plan, (void)e, (void)status, (void)err;
    return 0;
}

const clef__executor clef__exec_command_buffer = {
    .name = "command buffer", .prepare = prepare_nothing, .run = run_nothing};
