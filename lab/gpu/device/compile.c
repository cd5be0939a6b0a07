/* OpenCL C to assembly, by clang. CLEF_GPU_CACHE: a folder that keeps what was compiled. CLEF_GPU_CLANG:
 * another clang. */
#define _GNU_SOURCE /* posix_spawn, mkdtemp */
#include "lab/gpu/device/objects.h"
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

#ifndef GPU_CLANG
#    define GPU_CLANG "clang-15"
#endif
enum { MAX_WORDS = 256, MAX_PATH = 1024 };

/* ---- words ----------------------------------------------------------------------------------- */

char *gpu_word(const char *text)
{
    return strdup(text);
}

int gpu_add_library(char *words[], int n, const char *path)
{
    const char *const own[] = {"-Xclang", "-mlink-builtin-bitcode", "-Xclang", path};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        words[n++] = gpu_word(own[i]);
    return n;
}

/* The command: compiler, the program's options, the card's, and the rest. */
static int command(const char *options, const char *in, const char *out, char *words[MAX_WORDS])
{
    const char *clang = getenv("CLEF_GPU_CLANG");
    const char *const first[] = {clang ? clang : GPU_CLANG, "-x", "cl"};
    const char *const last[] = {"-nogpulib", "-Xclang", "-finclude-default-header", "-O3", "-S", "-o",
                                out,         in};
    char *own = strdup(options);
    int n = 0;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        words[n++] = gpu_word(first[i]);
    for (char *word = own ? strtok(own, " \t") : NULL; word && n < MAX_WORDS / 2; word = strtok(NULL, " \t"))
        words[n++] = gpu_word(word);
    free(own);
    n += gpu_device.card->vendor->options(gpu_device.card, words + n, MAX_WORDS / 4);
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        words[n++] = gpu_word(last[i]);
    words[n] = NULL;
    return n;
}

static void free_words(char *words[], int n)
{
    while (n--)
        free(words[n]);
}

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
    const char *folder = getenv("CLEF_GPU_CACHE");
    unsigned char sum[CLEF_SHA256_BYTES];
    char hex[33], *words[MAX_WORDS];
    int n;
    struct stat is;
    clef_sha256 s;
    path[0] = 0;
    if (!folder)
        return;
    clef__sha256_init(&s);
    add_text(&s, source);
    n = command(options, "", "", words);
    for (int i = 0; i < n; i++) {
        add_text(&s, words[i]);
        if (words[i][0] == '/' && stat(words[i], &is) == 0) /* a library */
            clef__sha256_add(&s, &is.st_size, sizeof is.st_size);
    }
    free_words(words, n);
    clef__sha256_finish(&s, sum);
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    mkdir(folder, 0777);
    snprintf(path, MAX_PATH, "%s/%s.s", folder, hex);
}

static void keep(const char *path, const char *text)
{
    char part[MAX_PATH + 32];
    snprintf(part, sizeof part, "%s.%ld", path, (long)getpid());
    if (write_file(part, text) || rename(part, path))
        remove(part);
}

/* ---- clang ----------------------------------------------------------------------------------- */

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

/* In a folder of its own. Returns the assembly, or NULL. */
static char *compile_in(const char *folder, const char *source, const char *options, char **log)
{
    char in[MAX_PATH], out[MAX_PATH], messages[MAX_PATH], *words[MAX_WORDS], *text = NULL;
    snprintf(in, sizeof in, "%s/a.cl", folder);
    snprintf(out, sizeof out, "%s/a.s", folder);
    snprintf(messages, sizeof messages, "%s/log", folder);
    const int n = command(options, in, out, words);
    if (write_file(in, source) == 0 && run(words, messages) == 0)
        text = read_file(out);
    *log = read_file(messages);
    remove(in);
    remove(out);
    remove(messages);
    free_words(words, n);
    return text;
}

char *gpu_compile(const char *source, const char *options, char **log)
{
    char path[MAX_PATH], folder[] = "/tmp/clef-gpu-XXXXXX", *text = NULL;
    *log = NULL;
    cache_path(source, options, path);
    if (path[0] && (text = read_file(path)) != NULL)
        return text;
    if (!mkdtemp(folder))
        return NULL;
    text = compile_in(folder, source, options, log);
    rmdir(folder);
    if (text && path[0])
        keep(path, text);
    return text;
}
