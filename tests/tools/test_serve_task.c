/* When a request of the server is over: serve_task_wait() of tools/serve/task.c. The engine, the client and
 * the clock are stubs, so that each order of events is there, whatever the machine does. */
#include <stdlib.h>

#include "tests/check.h"
#include "tools/cli/terminal.h"
#include "tools/serve/task.h"

/* ---- stubs ----------------------------------------------------------------------------------- */

static int has_given_up, is_gone;
static double now;

uint64_t cli_terminal_entropy(void)
{
    return 1;
}

double cli_terminal_seconds(void)
{
    return now;
}

int serve_fail(serve_error *e, serve_error_id id, const char *param, const char *format, ...)
{
    (void)param, (void)format;
    e->id = id;
    return 0;
}

int serve_engine_gave_up(const serve_engine *e, serve_error *error)
{
    (void)e;
    return has_given_up && !serve_fail(error, SERVE_E_UNAVAILABLE, NULL, "the server ends");
}

int serve_client_gone(serve_request *r)
{
    (void)r;
    return is_gone;
}

int serve_client_slow(serve_request *r)
{
    (void)r;
    return 0;
}

void serve_group_wait(serve_group *g, uint64_t seen, double seconds)
{
    (void)g, (void)seen, (void)seconds;
}

/* task.c refers to these, and serve_task_wait() does not call them. */
#define NOT_CALLED(returns, name, ...)                                                                       \
    returns name(__VA_ARGS__)                                                                                \
    {                                                                                                        \
        abort();                                                                                             \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"
NOT_CALLED(serve_engine_stats, serve_engine_describe, serve_engine *e)
NOT_CALLED(uint64_t, serve_client_of, const serve_request *r)
NOT_CALLED(void, serve_params_shrink, serve_request *r, serve_params *p)
NOT_CALLED(int, serve_hold, serve_request *r, size_t n)
NOT_CALLED(void, serve_group_init, serve_group *g)
NOT_CALLED(void, serve_group_finish, serve_group *g)
NOT_CALLED(int, serve_engine_submit, serve_engine *e, serve_group *g, serve_run *r, int32_t n,
           serve_error *err)
NOT_CALLED(void, serve_engine_note, serve_engine *e, double seconds)
NOT_CALLED(int, serve_run_cancel, serve_engine *e, serve_run *r)
NOT_CALLED(int, serve_choice_begin, serve_choice *c)
NOT_CALLED(int, serve_choice_take, serve_choice *c)
NOT_CALLED(void, serve_choice_free, serve_choice *c)
NOT_CALLED(int, serve_params_read, serve_request *r, serve_form form, serve_params *out)
NOT_CALLED(void, serve_params_finish, serve_params *p)
NOT_CALLED(int32_t, serve_model_find, const serve_model *m, const serve_options *o, const char *name)
NOT_CALLED(void, serve_random_letters, char *out, int32_t n)
NOT_CALLED(uint64_t, serve_secret_hash, const void *const *parts, const size_t *n_bytes, int32_t n)
NOT_CALLED(void, serve_buffer_free, serve_buffer *b)
NOT_CALLED(void, cli_sampler_finish, cli_sampler *sampler)

void serve_count_label(serve_metrics *m, int labelled, int value)
{
    (void)m, (void)labelled, (void)value;
}

/* ---- a request with two texts ---------------------------------------------------------------- */

/* What serve_task_wait() returns, or the error of the request. */
static serve_error_id wait_with(serve_run_state first, serve_run_state second)
{
    static serve_server server;
    serve_request r = {.s = &server};
    serve_run runs[2] = {{.state = first}, {.state = second}};
    serve_task t = {.r = &r, .runs = runs, .n_choices = 2};
    server.o.request_timeout = 600;
    server.o.queue_timeout = 60;
    serve_lock_init(&t.group.lock);
    const int goes_on = serve_task_wait(&t);
    serve_lock_finish(&t.group.lock);
    assert_int_equal(goes_on, r.error.id == SERVE_OK);
    return r.error.id;
}

TEST(test_goes_on)
{
    now = 1;
    assert_int_equal(wait_with(SERVE_RUN_WAITING, SERVE_RUN_WAITING), SERVE_OK);
    assert_int_equal(wait_with(SERVE_RUN_DONE, SERVE_RUN_RUNNING), SERVE_OK);
}

/* The ranks are lost: an answer that is complete is given, and others get the error. */
TEST(test_given_up)
{
    now = 1;
    has_given_up = 1;
    assert_int_equal(wait_with(SERVE_RUN_DONE, SERVE_RUN_DONE), SERVE_OK);
    assert_int_equal(wait_with(SERVE_RUN_DONE, SERVE_RUN_RUNNING), SERVE_E_UNAVAILABLE);
    assert_int_equal(wait_with(SERVE_RUN_DONE, SERVE_RUN_WAITING), SERVE_E_UNAVAILABLE);
    assert_int_equal(wait_with(SERVE_RUN_WAITING, SERVE_RUN_WAITING), SERVE_E_UNAVAILABLE);
    has_given_up = 0;
}

TEST(test_late)
{
    now = 61;
    assert_int_equal(wait_with(SERVE_RUN_WAITING, SERVE_RUN_WAITING), SERVE_E_TIMEOUT);
    assert_int_equal(wait_with(SERVE_RUN_WAITING, SERVE_RUN_RUNNING), SERVE_OK);
    now = 601;
    assert_int_equal(wait_with(SERVE_RUN_DONE, SERVE_RUN_RUNNING), SERVE_E_TIMEOUT);
    assert_int_equal(wait_with(SERVE_RUN_DONE, SERVE_RUN_DONE), SERVE_OK);
}

TEST(test_gone)
{
    now = 1;
    is_gone = 1;
    assert_int_equal(wait_with(SERVE_RUN_RUNNING, SERVE_RUN_RUNNING), SERVE_E_GONE);
    is_gone = 0;
}

TESTS(NULL, NULL)
