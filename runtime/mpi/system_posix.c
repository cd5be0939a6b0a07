/* The system layer of the transport on POSIX. */
#define _GNU_SOURCE /* sched_getaffinity, pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/mpi/system.h"

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

void clef__mpi_host_name(char *out, size_t capacity)
{
    if (gethostname(out, capacity))
        *out = 0;
    out[capacity - 1] = 0;
}

int clef__mpi_env_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
                                        "PALS_RANKID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return (int)clef__mpi_env_number(names[i], -1);
    return -1;
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
    snprintf(last_line, sizeof last_line, "%s\n", line);
    clef__mpi_exit_after(seconds);
}

void clef__mpi_in_time(void)
{
    alarm(0);
    *last_line = 0;
}

void clef__mpi_exit_after(unsigned seconds)
{
    struct sigaction action = {.sa_handler = exit_on_alarm};
    sigaction(SIGALRM, &action, NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    alarm(seconds);
}

/* ---- the launcher ---- */

#ifdef __linux__
/* Reads a small file of /proc; returns 0 if there is none. The caller may be a process that was forked from
 * one with threads, so nothing here allocates. */
static int read_proc(const char *form, long pid, char *out, size_t capacity)
{
    char path[64];
    const int wrote = snprintf(path, sizeof path, form, pid, pid);
    if (wrote < 0 || (size_t)wrote >= sizeof path)
        return 0;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = file < 0 ? -1 : read(file, out, capacity - 1);
    if (file >= 0)
        close(file);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static int is_launcher(pid_t pid)
{
    static const char *const names[] = {"mpirun\n", "orted\n", "prterun\n", "prted\n", "orterun\n"};
    char name[32];
    if (pid <= 1 || !read_proc("/proc/%ld/comm", (long)pid, name, sizeof name))
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

/* Its children are ranks, and the programs that started its parts on other hosts. */
static void end_with_children(pid_t launcher)
{
    char text[4096];
    if (read_proc("/proc/%ld/task/%ld/children", (long)launcher, text, sizeof text))
        for (char *at = text, *end; *at; at = end) {
            const long pid = strtol(at, &end, 10);
            if (end == at)
                break;
            if (pid > 1)
                kill((pid_t)pid, SIGKILL);
        }
    kill(launcher, SIGKILL);
}

/* ---- a guard ---- */

static const double look_seconds = 0.5;
static pid_t guard;
static int guard_pipe[2];

/* The letter of /proc/PID/stat for what a process does; 'T': it is stopped. 0: there is no such process. */
static char state_of(pid_t pid)
{
    char text[512];
    const char *end = read_proc("/proc/%ld/stat", (long)pid, text, sizeof text) ? strrchr(text, ')') : NULL;
    return (char)(end && end[1] ? end[2] : 0);
}

/* Looks are counted, not seconds: a guard that was stopped itself has made none meanwhile. */
static _Noreturn void watch(pid_t rank, pid_t launcher, double seconds, const char *line)
{
    int32_t n_stopped = 0;
    for (int file = 0; file < 1024; file++)
        if (file != STDERR_FILENO && file != guard_pipe[0])
            close(file);
    while ((double)n_stopped * look_seconds < seconds) {
        struct pollfd end = {.fd = guard_pipe[0], .events = POLLIN};
        if (poll(&end, 1, (int)(1e3 * look_seconds)) > 0) /* the rank needs no guard, or has ended */
            _exit(0);
        n_stopped = state_of(rank) == 'T' && state_of(launcher) != 'T' ? n_stopped + 1 : 0;
    }
    clef__mpi_write_line(line);
    kill(rank, SIGKILL);
    _exit(0);
}

void clef__mpi_guard_begin(double seconds, const char *line)
{
    const pid_t rank = getpid(), launcher = getppid();
    if (!is_launcher(launcher) || pipe2(guard_pipe, O_CLOEXEC))
        return;
    guard = fork();
    if (guard == 0)
        watch(rank, launcher, seconds, line);
    close(guard_pipe[0]);
    if (guard < 0)
        close(guard_pipe[1]);
}

void clef__mpi_guard_end(void)
{
    if (guard <= 0)
        return;
    close(guard_pipe[1]);
    waitpid(guard, NULL, 0);
    guard = 0;
}

void clef__mpi_end_launcher_after(double seconds)
{
    const pid_t launcher = getppid();
    if (!is_launcher(launcher) || fork() != 0)
        return;
    setsid();                               /* the launcher ends its ranks' groups */
    for (int file = 0; file < 1024; file++) /* it waits until nobody can write to it any more */
        close(file);
    clef__mpi_nap(seconds);
    if (is_launcher(launcher))
        end_with_children(launcher);
    _exit(0);
}
#else
void clef__mpi_guard_begin(double seconds, const char *line)
{
    (void)seconds;
    (void)line;
}

void clef__mpi_guard_end(void)
{
}

void clef__mpi_end_launcher_after(double seconds)
{
    (void)seconds;
}
#endif

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
