/* Threads on POSIX systems. */
#define _POSIX_C_SOURCE 200809L /* clocks of conditions */
#define _DEFAULT_SOURCE         /* priorities */
#define _DARWIN_C_SOURCE        /* waiting for a span of time on macOS */
#include "tools/serve/os/thread.h"

#ifdef __APPLE__
#    include <pthread/qos.h>
#endif
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

void serve_lock_init(serve_lock *lock)
{
    pthread_mutex_init(lock, NULL);
}

void serve_lock_finish(serve_lock *lock)
{
    pthread_mutex_destroy(lock);
}

void serve_lock_take(serve_lock *lock)
{
    pthread_mutex_lock(lock);
}

void serve_lock_release(serve_lock *lock)
{
    pthread_mutex_unlock(lock);
}

void serve_condition_init(serve_condition *c)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
#ifndef __APPLE__
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(c, &a);
    pthread_condattr_destroy(&a);
}

void serve_condition_finish(serve_condition *c)
{
    pthread_cond_destroy(c);
}

void serve_condition_wait(serve_condition *c, serve_lock *lock)
{
    pthread_cond_wait(c, lock);
}

void serve_condition_wait_seconds(serve_condition *c, serve_lock *lock, double seconds)
{
#ifdef __APPLE__ /* its conditions know only the time of day */
    const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    pthread_cond_timedwait_relative_np(c, lock, &t);
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const int64_t ns = (int64_t)t.tv_nsec + (int64_t)(seconds * 1e9);
    t.tv_sec += (time_t)(ns / 1000000000);
    t.tv_nsec = (long)(ns % 1000000000);
    pthread_cond_timedwait(c, lock, &t);
#endif
}

void serve_condition_signal(serve_condition *c)
{
    pthread_cond_signal(c);
}

void serve_condition_broadcast(serve_condition *c)
{
    pthread_cond_broadcast(c);
}

/* What a new thread runs; it frees this. */
typedef struct start {
    void (*run)(void *user);
    void *user;
} start;

static void *begin(void *argument)
{
    const start s = *(start *)argument;
    free(argument);
    s.run(s.user);
    return NULL;
}

int serve_thread_start(serve_thread *out, void (*run)(void *user), void *user)
{
    start *s = malloc(sizeof *s);
    if (!s)
        return 0;
    *s = (start){run, user};
    if (pthread_create(out, NULL, begin, s) == 0)
        return 1;
    free(s);
    return 0;
}

void serve_thread_lower(void)
{
#ifdef __linux__ /* where priorities belong to threads */
    enum { LOWER = 10 };
    (void)setpriority(PRIO_PROCESS, 0, LOWER);
#elif defined(__APPLE__)
    pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0);
#endif
}

void serve_thread_join(serve_thread thread)
{
    pthread_join(thread, NULL);
}
