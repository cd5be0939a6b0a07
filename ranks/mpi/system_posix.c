/* The system layer of the transport on POSIX. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ranks/mpi/system.h"

double clef__mpi_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void clef__mpi_yield(void)
{
    sched_yield();
}

void clef__mpi_nap(double seconds)
{
    const time_t whole = (time_t)seconds;
    const struct timespec t = {.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)};
    nanosleep(&t, NULL);
}

void clef__mpi_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void clef__mpi_cores(unsigned char mask[CLEF__TRANSPORT_CORE_BYTES])
{
    memset(mask, 0, CLEF__TRANSPORT_CORE_BYTES);
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set))
        return;
    for (size_t i = 0; i < 8 * CLEF__TRANSPORT_CORE_BYTES && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            mask[i / 8] = (unsigned char)(mask[i / 8] | 1u << i % 8);
#else
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    for (long i = 0; i < n && i < 8 * CLEF__TRANSPORT_CORE_BYTES; i++)
        mask[i / 8] = (unsigned char)(mask[i / 8] | 1u << i % 8);
#endif
}

double clef__mpi_env_number(const char *name, double otherwise)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return otherwise;
    char *end;
    const double value = strtod(text, &end);
    return *end || !(value >= 0 && value < 1e9) ? otherwise : value;
}

void clef__mpi_write_line(const char *line)
{
    char text[1100];
    const int n = snprintf(text, sizeof text, "%s\n", line);
    size_t left = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    if (left == sizeof text - 1)
        text[left - 1] = '\n';
    for (const char *at = text; left > 0;) {
        const ssize_t written = write(STDERR_FILENO, at, left);
        if (written < 0 && errno != EINTR)
            return;
        if (written > 0) {
            at += written;
            left -= (size_t)written;
        }
    }
}

_Noreturn void clef__mpi_exit_now(void)
{
    _exit(1);
}

static char last_line[256]; /* what exit_on_alarm() writes */

static void exit_on_alarm(int signal_number)
{
    (void)signal_number;
    if (write(STDERR_FILENO, last_line, strlen(last_line)) < 0)
        _exit(1);
    _exit(1);
}

void clef__mpi_end_unless(unsigned seconds, const char *line)
{
    struct sigaction action = {.sa_handler = exit_on_alarm};
    snprintf(last_line, sizeof last_line, "%s\n", line);
    sigaction(SIGALRM, &action, NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    alarm(seconds);
}

void clef__mpi_in_time(void)
{
    alarm(0);
}

/* ---- threads ---- */

struct clef__mpi_thread {
    pthread_t thread;
    void (*work)(void *user);
    void *user;
};

static void *run_thread(void *argument)
{
    const clef__mpi_thread *thread = argument;
    thread->work(thread->user);
    return NULL;
}

clef__mpi_thread *clef__mpi_thread_start(void (*work)(void *user), void *user)
{
    clef__mpi_thread *thread = malloc(sizeof *thread);
    if (!thread)
        return NULL;
    *thread = (clef__mpi_thread){.work = work, .user = user};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int failed = pthread_create(&thread->thread, NULL, run_thread, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        return thread;
    free(thread);
    return NULL;
}

void clef__mpi_thread_join(clef__mpi_thread *thread)
{
    if (!thread)
        return;
    pthread_join(thread->thread, NULL);
    free(thread);
}
