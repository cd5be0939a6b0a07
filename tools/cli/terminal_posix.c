#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE /* ru_maxrss on macOS */
#include "tools/cli/terminal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#    include <mach-o/dyld.h>
#endif

static volatile sig_atomic_t interrupted;

void cli_terminal_start(void)
{
}

int cli_terminal_stderr(void)
{
    return isatty(STDERR_FILENO);
}

int cli_terminal_stdout(void)
{
    return isatty(STDOUT_FILENO);
}

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static void catch_signal(int number)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    action.sa_flags |= (int)SA_RESETHAND; /* so that the second one has its default effect */
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void cli_terminal_catch_interrupt(void)
{
    catch_signal(SIGINT);
}

void cli_terminal_catch_term(void)
{
    catch_signal(SIGTERM);
}

int cli_terminal_interrupted(void)
{
    return interrupted != 0;
}

void cli_terminal_forget_interrupt(void)
{
    interrupted = 0;
    cli_terminal_catch_interrupt();
}

void cli_terminal_use_utf8(void)
{
    const char *name = setlocale(LC_CTYPE, "");
    if (!name || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

int cli_terminal_stdin(void)
{
    return isatty(STDIN_FILENO);
}

int cli_terminal_make_private(const char *path)
{
    char folder[1024];
    for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
        const size_t n = (size_t)(slash - path);
        if (n >= sizeof folder)
            return 0;
        memcpy(folder, path, n);
        folder[n] = '\0';
        if (mkdir(folder, 0700) != 0 && errno != EEXIST)
            return 0;
    }
    const int file = open(path, O_WRONLY | O_CREAT, 0600);
    return file >= 0 && fchmod(file, 0600) == 0 && close(file) == 0;
}

int cli_terminal_can_replace(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? S_ISREG(st.st_mode) : errno == ENOENT;
}

FILE *cli_terminal_create(const char *path)
{
    return fopen(path, "wbx");
}

int cli_terminal_rename(const char *from, const char *to)
{
    return rename(from, to) == 0;
}

char *cli_terminal_link_target(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) ? realpath(path, NULL) : NULL;
}

int cli_terminal_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

void cli_terminal_list(const char *path, void (*tell)(void *user, const char *name), void *user)
{
    DIR *folder = opendir(path);
    for (const struct dirent *e; folder && (e = readdir(folder)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            tell(user, e->d_name);
    if (folder)
        closedir(folder);
}

int cli_terminal_make_folder(const char *path)
{
    return mkdir(path, 0777) == 0 || (errno == EEXIST && cli_terminal_is_folder(path));
}

double cli_terminal_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint64_t cli_terminal_peak_rss(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0 || usage.ru_maxrss < 0)
        return 0;
#ifdef __APPLE__
    return (uint64_t)usage.ru_maxrss; /* in bytes there, in KiB elsewhere */
#else
    return (uint64_t)usage.ru_maxrss * 1024;
#endif
}

uint64_t cli_terminal_entropy(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec << 20 ^ (uint64_t)getpid();
}

/* The path of the program that runs. Returns 0 where it is unknown or does not fit. */
static int own_path(char *out, size_t capacity)
{
#ifdef __APPLE__
    uint32_t n_bytes = (uint32_t)capacity;
    return _NSGetExecutablePath(out, &n_bytes) == 0;
#else
    const ssize_t n = readlink("/proc/self/exe", out, capacity - 1);
    if (n <= 0 || n >= (ssize_t)capacity - 1)
        return 0;
    out[n] = 0;
    return 1;
#endif
}

void cli_terminal_offer_prover(void)
{
    char path[512];
    if (own_path(path, sizeof path))
        setenv("CLEF_PROVER", path, 0);
}
