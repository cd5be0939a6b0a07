/* Child processes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "graph/fail.h"
#include "runtime/os/os.h"

/* Android has posix_spawn() since API 28. */
#if defined(__ANDROID_API__) && __ANDROID_API__ < 28
#    define HAS_SPAWN 0
#else
#    define HAS_SPAWN 1
#    include <spawn.h>
#endif

extern char **environ;

static int sets_variable(const char *const *list, const char *variable)
{
    const size_t n = strcspn(variable, "=") + 1;
    while (*list && strncmp(*list, variable, n) != 0)
        list++;
    return *list != NULL;
}

/* This process's environment, changed by the list; NULL when out of memory. */
static char **environment_with(const char *const *list)
{
    size_t n = 0, k = 0;
    while (environ[n])
        n++;
    char **out = malloc((n + CLEF_OS_MAX_SET + 1) * sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        if (!sets_variable(list, environ[i]))
            out[k++] = environ[i];
    for (size_t i = 0; out && list[i] && i < CLEF_OS_MAX_SET; i++)
        out[k++] = (char *)(uintptr_t)list[i];
    if (out)
        out[k] = NULL;
    return out;
}

void clef__os_leave(int64_t process)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int64_t left[64]; /* 0: none */
    int code;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        if (left[i] && clef__os_ended(left[i], &code))
            left[i] = 0;
        if (!left[i]) {
            left[i] = process;
            process = 0;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* Starts the program with the null device for its standard streams. Returns an errno code. */
#if HAS_SPAWN
static int start_program(const char *const *argv, char *const *variables, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code)
        return code;
    code = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (int to = STDOUT_FILENO; to <= STDERR_FILENO && !code; to++)
        code = posix_spawn_file_actions_addopen(&actions, to, "/dev/null", O_WRONLY, 0);
    if (!code)
        code = posix_spawn(pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, variables);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}
#else
/* The child calls only what a signal handler may call, since other threads may hold locks of the C library. A
 * program that cannot be executed is a child that ends with the code 127, as in a shell. */
static int start_program(const char *const *argv, char *const *variables, pid_t *pid)
{
    *pid = fork();
    if (*pid != 0)
        return *pid < 0 ? errno : 0;
    const int null = open("/dev/null", O_RDWR);
    for (int to = STDIN_FILENO; to <= STDERR_FILENO; to++)
        if (null < 0 || dup2(null, to) < 0)
            _exit(127);
    if (null > STDERR_FILENO)
        close(null);
    execve(argv[0], (char *const *)(uintptr_t)argv, variables);
    _exit(127);
}
#endif

clef_status clef__os_spawn(const char *const *argv, const char *const *environment, int64_t *process,
                           clef_error *err)
{
    char **variables = environment_with(environment);
    clef__os_leave(0);
    if (!variables)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its environment", argv[0]);
    pid_t pid = 0;
    const int code = start_program(argv, variables, &pid);
    free(variables);
    *process = (int64_t)pid;
    return code ? clef__fail(err, CLEF_E_IO, "%s: cannot be started: %s", argv[0], strerror(code)) : CLEF_OK;
}

int clef__os_ended(int64_t process, int *code)
{
    int status = 0;
    pid_t pid;
    do
        pid = waitpid((pid_t)process, &status, WNOHANG);
    while (pid < 0 && errno == EINTR);
    if (pid == 0)
        return 0;
    *code = pid < 0 ? -1 : WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    return 1;
}

int clef__os_was_interrupted(int code)
{
    enum { EXIT_INTERRUPTED = 130 }; /* the convention of shells, and of the command clef */
    return code == EXIT_INTERRUPTED || code == -SIGINT;
}

int clef__os_was_killed(int code)
{
    return code == -SIGKILL || code == -SIGTERM || code == -SIGHUP || code == CLEF_OS_EXIT_NO_MEMORY;
}

void clef__os_go_to_background(void)
{
    const int null = open("/dev/null", O_WRONLY);
    if (null >= 0) {
        dup2(null, STDERR_FILENO);
        close(null);
    }
    setsid();
    setpriority(PRIO_PROCESS, 0, 19);
}

void clef__os_kill(int64_t process)
{
    enum { POLL_MS = 2, MOST_MS = 2000 };
    int code;
    kill((pid_t)process, SIGKILL);
    /* One that a driver keeps in the kernel ends later, or never. */
    int ms = 0;
    for (; ms < MOST_MS && !clef__os_ended(process, &code); ms += POLL_MS)
        clef__os_sleep(POLL_MS);
    if (ms >= MOST_MS)
        clef__os_leave(process);
}

void clef__os_sleep(int32_t ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

int64_t clef__os_pid(void)
{
    return (int64_t)getpid();
}
