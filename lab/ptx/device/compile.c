/* OpenCL C to PTX, by clang and libclc, as lab/compile/compile.sh does it; but all functions are put
 * into the kernels that call them, as NVIDIA's compiler does. CLEF_PTX_CACHE: a folder that keeps what
 * was compiled. */
#define _GNU_SOURCE /* posix_spawn, mkdtemp */
#include "lab/ptx/device/objects.h"
#include "runtime/os/sha256.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#ifndef PTX_CLANG
#    define PTX_CLANG "clang-15"
#endif
#define LIBRARY "/usr/lib/clc/nvptx64--nvidiacl.bc"

enum { MAX_WORDS = 256, MAX_PATH = 1024 };

static const char *const fixed[] = {"-target",
                                    "nvptx64--nvidiacl",
                                    "-Xclang",
                                    "-target-cpu",
                                    "-Xclang",
                                    "sm_70",
                                    "-nogpulib",
                                    "-Xclang",
                                    "-finclude-default-header",
                                    "-Xclang",
                                    "-mlink-builtin-bitcode",
                                    "-Xclang",
                                    LIBRARY,
                                    "-mllvm",
                                    "-inline-threshold=1000000",
                                    "-O3",
                                    "-S"};

/* ---- files ----------------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
    FILE *from = fopen(path, "rb");
    struct stat is;
    char *text = NULL;
    if (from && fstat(fileno(from), &is) == 0 && (text = malloc((size_t)is.st_size + 1)) != NULL)
        text[fread(text, 1, (size_t)is.st_size, from)] = 0;
    if (from)
        fclose(from);
    return text;
}

static int write_file(const char *path, const char *text)
{
    FILE *to = fopen(path, "wb");
    const int wrong = !to || fputs(text, to) < 0;
    return (to && fclose(to)) || wrong ? -1 : 0;
}

/* ---- what was compiled before ---------------------------------------------------------------- */

static void add_text(clef_sha256 *sum, const char *text)
{
    clef__sha256_add(sum, text, strlen(text) + 1);
}

/* Empty where nothing is kept. */
static void cache_path(const char *source, const char *options, char path[MAX_PATH])
{
    const char *folder = getenv("CLEF_PTX_CACHE");
    unsigned char sum[CLEF_SHA256_BYTES];
    char hex[33];
    struct stat is;
    clef_sha256 s;
    path[0] = 0;
    if (!folder)
        return;
    clef__sha256_init(&s);
    add_text(&s, source);
    add_text(&s, options);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        add_text(&s, fixed[i]);
    if (stat(LIBRARY, &is) == 0)
        clef__sha256_add(&s, &is.st_size, sizeof is.st_size);
    clef__sha256_finish(&s, sum);
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    mkdir(folder, 0777);
    snprintf(path, MAX_PATH, "%s/%s.ptx", folder, hex);
}

static void keep(const char *path, const char *text)
{
    char part[MAX_PATH + 32];
    snprintf(part, sizeof part, "%s.%ld", path, (long)getpid());
    if (write_file(part, text) || rename(part, path))
        remove(part);
}

/* ---- clang ----------------------------------------------------------------------------------- */

/* Splits at blanks, in place. */
static int split_options(char *options, char *words[], int n, int most)
{
    for (char *word = strtok(options, " \t"); word && n < most; word = strtok(NULL, " \t"))
        words[n++] = word;
    return n;
}

static int run(char *words[], const char *log)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (posix_spawnp(&child, words[0], &actions, NULL, words, environ) == 0)
        while (waitpid(child, &status, 0) < 0)
            continue;
    posix_spawn_file_actions_destroy(&actions);
    return status;
}

/* In a folder of its own. Returns the PTX, or NULL. */
static char *compile_in(const char *folder, const char *source, const char *options, char **log)
{
    char in[MAX_PATH], out[MAX_PATH], messages[MAX_PATH], *words[MAX_WORDS], *ptx = NULL;
    char *own = strdup(options);
    int n = 0;
    snprintf(in, sizeof in, "%s/a.cl", folder);
    snprintf(out, sizeof out, "%s/a.ptx", folder);
    snprintf(messages, sizeof messages, "%s/log", folder);
    const char *const first[] = {PTX_CLANG, "-x", "cl"}, *const last[] = {"-o", out, in};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        words[n++] = (char *)(uintptr_t)first[i];
    n = own ? split_options(own, words, n, MAX_WORDS - 32) : n;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        words[n++] = (char *)(uintptr_t)fixed[i];
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        words[n++] = (char *)(uintptr_t)last[i];
    words[n] = NULL;
    if (own && write_file(in, source) == 0 && run(words, messages) == 0)
        ptx = read_file(out);
    *log = read_file(messages);
    remove(in);
    remove(out);
    remove(messages);
    free(own);
    return ptx;
}

char *ptx_compile(const char *source, const char *options, char **log)
{
    char path[MAX_PATH], folder[] = "/tmp/clef-ptx-XXXXXX", *ptx = NULL;
    *log = NULL;
    cache_path(source, options, path);
    if (path[0] && (ptx = read_file(path)) != NULL)
        return ptx;
    if (!mkdtemp(folder))
        return NULL;
    ptx = compile_in(folder, source, options, log);
    rmdir(folder);
    if (ptx && path[0])
        keep(path, ptx);
    return ptx;
}
