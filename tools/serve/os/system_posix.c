/* Private files, signals, memory and time on POSIX systems. */
#define _GNU_SOURCE
#include "tools/serve/os/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#    include <mach/mach.h>
#endif
#ifdef __GLIBC__
#    include <malloc.h>
#endif

/* ---- private files --------------------------------------------------------------------------- */

int serve_file_is_private(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return 0;
    errno = 0;
    return (info.st_mode & 077) == 0 || !S_ISREG(info.st_mode);
}

const char *serve_private_advice(void)
{
    return "chmod 600";
}

/* ---- signals --------------------------------------------------------------------------------- */

static int signal_pipe[2] = {-1, -1};

static void note_signal(int number)
{
    const int why = errno;
    const char c = number == SIGHUP ? 'r' : 'e';
    (void)!write(signal_pipe[1], &c, 1);
    errno = why;
}

static int make_pipe(void)
{
    if (pipe(signal_pipe) != 0)
        return 0;
    for (int i = 0; i < 2; i++)
        if (fcntl(signal_pipe[i], F_SETFD, FD_CLOEXEC) != 0 ||
            fcntl(signal_pipe[i], F_SETFL, O_NONBLOCK) != 0)
            return 0;
    return 1;
}

int serve_signals_catch(void)
{
    static const int caught[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    if (signal_pipe[0] < 0 && !make_pipe())
        return 0;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        if (sigaction(caught[i], &action, NULL) != 0)
            return 0;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that grows beyond a limit is an error like a full disk */
    return 1;
}

int serve_signal_wait(double seconds)
{
    struct pollfd p = {.fd = signal_pipe[0], .events = POLLIN};
    char c = 0;
    if (poll(&p, 1, (int)(seconds * 1e3)) <= 0)
        return 0;
    return read(signal_pipe[0], &c, 1) == 1 ? c : 0;
}

/* ---- folders --------------------------------------------------------------------------------- */

int serve_folder_list(const char *path, void (*look)(void *user, const char *name), void *user)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    if (!dir)
        return 0;
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            look(user, entry->d_name);
    closedir(dir);
    return 1;
}

/* ---- the process ----------------------------------------------------------------------------- */

uint64_t serve_resident_bytes(void)
{
#ifdef __APPLE__
    mach_task_basic_info_data_t info;
    mach_msg_type_number_t n = MACH_TASK_BASIC_INFO_COUNT;
    const kern_return_t why = task_info(mach_task_self(), MACH_TASK_BASIC_INFO, (task_info_t)&info, &n);
    return why == KERN_SUCCESS ? info.resident_size : 0;
#else
    unsigned long long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f)
        return 0;
    const int n = fscanf(f, "%llu %llu", &size, &resident);
    fclose(f);
    return n == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
#endif
}

void serve_memory_begin(void)
{
#ifdef __GLIBC__
    enum { LARGE = 128 << 10 }; /* glibc's own first limit, which would rise with each block that is freed */
    mallopt(M_MMAP_THRESHOLD, LARGE);
#endif
}

void serve_give_memory_back(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

double serve_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void serve_utc(int64_t seconds, struct tm *out)
{
    const time_t t = (time_t)seconds;
    gmtime_r(&t, out);
}

void serve_sleep(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}
