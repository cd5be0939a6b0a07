/* Which GGUF file of many is meant. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hub/hub.h"

/* A file, or the first part of several. */
typedef struct gguf_name {
    const char *path, *title; /* title: its last part */
    int32_t n_stem, n_title;  /* bytes of both without "-00001-of-00003" and ".gguf" */
    int32_t part, n_parts;    /* 1 of 1: not split */
} gguf_name;

static int32_t five_digits(const char *at)
{
    int32_t x = 0;
    for (int i = 0; i < 5; i++) {
        if (!isdigit((unsigned char)at[i]))
            return -1;
        x = 10 * x + (at[i] - '0');
    }
    return x;
}

/* Reads a name; 0 if it is none of a GGUF file. */
static int read_name(const char *path, gguf_name *out)
{
    enum { ENDING = 5, SPLIT = 15 }; /* ".gguf", "-00001-of-00003" */
    const size_t n = strlen(path);
    if (n <= ENDING || strcmp(path + n - ENDING, ".gguf") != 0)
        return 0;
    const char *title = cli_title_of(path), *end = path + n - ENDING;
    *out = (gguf_name){.path = path, .title = title, .part = 1, .n_parts = 1};
    if (end - title > SPLIT && end[-SPLIT] == '-' && strncmp(end - 9, "-of-", 4) == 0 &&
        five_digits(end - 14) > 0 && five_digits(end - 5) > 0) {
        out->part = five_digits(end - 14);
        out->n_parts = five_digits(end - 5);
        end -= SPLIT;
    }
    out->n_stem = (int32_t)(end - path);
    out->n_title = (int32_t)(end - title);
    return 1;
}

static int same_letters(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i]))
            return 0;
    return 1;
}

/* Whether the quantisation is in the file's name as a word of its own: Q4_K is not in Q4_K_M. */
static int has_word(const gguf_name *g, const char *quant)
{
    const int32_t n = (int32_t)strlen(quant);
    for (int32_t at = 0; at + n <= g->n_title; at++) {
        const char before = at > 0 ? g->title[at - 1] : '-',
                   after = at + n < g->n_title ? g->title[at + n] : '-';
        if (strchr("-.", before) && strchr("-.", after) && same_letters(g->title + at, quant, (size_t)n))
            return 1;
    }
    return 0;
}

/* Files beside a model: of its pictures and sounds, and of how it was quantised. */
static int is_beside(const gguf_name *g)
{
    return strncmp(g->title, "mmproj", 6) == 0 || strstr(g->title, "-mmproj") || strstr(g->title, "imatrix");
}

static int is_named(const gguf_name *g, const char *quant)
{
    const size_t n = strlen(quant);
    return strcmp(g->path, quant) == 0 || strcmp(g->title, quant) == 0 ||
           (n == (size_t)g->n_stem && strncmp(g->path, quant, n) == 0) ||
           (n == (size_t)g->n_title && strncmp(g->title, quant, n) == 0);
}

/* How well a file fits: 0 not, 2 by its whole name. */
static int fits(const gguf_name *g, const char *quant)
{
    if (*quant && is_named(g, quant))
        return 2;
    return !is_beside(g) && (!*quant || has_word(g, quant));
}

/* The file that fits best; of several the one with the shortest name. *n_best: how many are that good. */
static gguf_name best_of(const hub_files *all, const char *quant, int32_t *n_best)
{
    gguf_name best = {0}, g;
    int most = 0;
    *n_best = 0;
    for (int32_t i = 0; i < all->n; i++) {
        if (!read_name(all->names[i], &g) || g.part != 1)
            continue;
        const int fit = fits(&g, quant);
        const int longer = fit == most && *n_best > 0 && *quant ? g.n_title - best.n_title : 0;
        if (fit == 0 || fit < most || longer > 0)
            continue;
        *n_best = fit > most || longer < 0 ? 1 : *n_best + 1;
        most = fit;
        best = g;
    }
    return best;
}

/* Fails with the names of the files that are there. */
static clef_status refuse(const hub_name *name, const hub_files *all, const char *why, clef_error *err)
{
    char list[600] = "";
    size_t n = 0;
    gguf_name g;
    for (int32_t i = 0; i < all->n; i++) {
        if (!read_name(all->names[i], &g) || g.part != 1 || is_beside(&g))
            continue;
        if (n + (size_t)g.n_title + 8 > sizeof list) {
            n += (size_t)snprintf(list + n, sizeof list - n, ", ..");
            break;
        }
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%.*s", n ? ", " : "", g.n_title, g.title);
    }
    if (!n)
        return cli_error(err, CLEF_E_NOT_FOUND, "%s: has no GGUF file%s%s", name->repo,
                         *name->quant ? ", expected one of " : "", name->quant);
    return cli_error(err, CLEF_E_NOT_FOUND, "%s: %s%s; it has %s", name->repo, why, name->quant, list);
}

static clef_status add_parts(const hub_name *name, const gguf_name *g, const hub_files *all,
                             hub_files *chosen, clef_error *err)
{
    char part[HUB_MOST_PATH];
    clef_status status = CLEF_OK;
    if (g->n_parts == 1)
        return hub_files_add(chosen, g->path, err);
    for (int32_t i = 1; i <= g->n_parts && status == CLEF_OK; i++) {
        snprintf(part, sizeof part, "%.*s-%05d-of-%05d.gguf", g->n_stem, g->path, (int)i, (int)g->n_parts);
        status = hub_files_has(all, part)
                     ? hub_files_add(chosen, part, err)
                     : cli_error(err, CLEF_E_NOT_FOUND, "%s: has no %s", name->repo, part);
    }
    return status;
}

int hub_is_folder(const hub_files *all)
{
    return hub_files_has(all, "model.safetensors") || hub_files_has(all, "model.safetensors.index.json") ||
           hub_files_has(all, "adapter_model.safetensors");
}

clef_status hub_choose_gguf(const hub_name *name, const hub_files *all, hub_files *chosen, clef_error *err)
{
    int32_t n_best = 0;
    gguf_name best = best_of(all, name->quant, &n_best);
    if (n_best > 1 && !*name->quant)
        best = best_of(all, "Q4_K_M", &n_best);
    if (n_best == 0)
        return refuse(name, all, *name->quant ? "has no " : "expected :QUANT to say which GGUF file", err);
    if (n_best > 1)
        return refuse(name, all,
                      *name->quant ? "several files are of " : "expected :QUANT to say which GGUF file", err);
    return add_parts(name, &best, all, chosen, err);
}
