/* Finds what was pulled. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/hub/hub.h"

/* Paths that were handed out, each followed by the name that it was found by. */
typedef struct kept {
    struct kept *next;
    char path[];
} kept;
static kept *all_kept;

static const char *keep(const char *path, const char *name)
{
    const size_t n = strlen(path) + 1;
    kept *k = malloc(sizeof *k + n + strlen(name) + 1);
    if (!k)
        return NULL;
    strcpy(k->path, path);
    strcpy(k->path + n, name);
    k->next = all_kept;
    all_kept = k;
    return k->path;
}

const char *hub_name_of(const char *path)
{
    for (const kept *k = all_kept; k; k = k->next)
        if (strcmp(k->path, path) == 0)
            return k->path + strlen(k->path) + 1;
    return NULL;
}

static int exists(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file)
        fclose(file);
    return file || cli_terminal_is_folder(path);
}

/* The commit that refs/main names; 0 if there is none. */
static int read_ref(const char *folder, char commit[HUB_MOST_NAME])
{
    char path[HUB_MOST_PATH];
    clef_error err;
    FILE *file = hub_path(path, &err, "%s/refs/main", folder) ? NULL : fopen(path, "rb");
    const size_t n = file ? fread(commit, 1, HUB_MOST_NAME - 1, file) : 0;
    if (file)
        fclose(file);
    commit[n] = '\0';
    commit[strcspn(commit, "\r\n")] = '\0';
    return hub_is_inside(commit) && !strchr(commit, '/');
}

typedef struct listing {
    const char *root;
    char at[HUB_MOST_PATH / 2]; /* a folder inside the root, and a slash; "" for the root */
    int depth;
    hub_files *files;
    clef_error *err;
    clef_status status;
} listing;

/* Adds a file that exists (a link may lead nowhere), and what is in a folder. */
static void list_entry(void *user, const char *entry)
{
    enum { MOST_DEPTH = 3 };
    listing *l = user;
    char path[HUB_MOST_PATH];
    const size_t n = strlen(l->at), n_entry = strlen(entry);
    if (l->status || n + n_entry + 2 > sizeof l->at ||
        hub_path(path, l->err, "%s/%s%s", l->root, l->at, entry))
        return;
    memcpy(l->at + n, entry, n_entry + 1);
    if (cli_terminal_is_folder(path)) {
        strcpy(l->at + n + n_entry, "/");
        if (++l->depth <= MOST_DEPTH)
            cli_terminal_list(path, list_entry, l);
        l->depth--;
    } else if (exists(path)) {
        l->status = hub_files_add(l->files, l->at, l->err);
    }
    l->at[n] = '\0';
}

/* The path of a model in a snapshot: its GGUF file, unless the model is the folder. */
static clef_status choose(const hub_name *name, const char *snapshot, char out[HUB_MOST_PATH],
                          clef_error *err)
{
    hub_files all = {0}, chosen = {0};
    listing l = {.root = snapshot, .files = &all, .err = err};
    cli_terminal_list(snapshot, list_entry, &l);
    const int is_folder = !*name->quant && hub_is_folder(&all);
    clef_status status = l.status;
    if (!status && is_folder)
        status = hub_path(out, err, "%s", snapshot);
    else if (!status)
        status = hub_choose_gguf(name, &all, &chosen, err);
    if (!status && !is_folder)
        status = hub_path(out, err, "%s/%s", snapshot, chosen.names[0]);
    hub_files_free(&all);
    hub_files_free(&chosen);
    return status;
}

static clef_status find_in_cache(const hub_name *name, char path[HUB_MOST_PATH], clef_error *err)
{
    char commit[HUB_MOST_NAME], folder[HUB_MOST_PATH], snapshot[HUB_MOST_PATH];
    clef_status status = hub_repo_folder(name, folder, err);
    if (!status && !read_ref(folder, commit))
        status =
            cli_error(err, CLEF_E_NOT_FOUND,
                      "%s: no such file or folder, and %s has no such model; `clef pull %s` gets it from "
                      "the Hub",
                      name->repo, folder, name->repo);
    if (!status)
        status = hub_path(snapshot, err, "%s/snapshots/%s", folder, commit);
    return status ? status : choose(name, snapshot, path, err);
}

/* Names that mean a file of this machine. */
static int is_file_name(const char *text)
{
    static const char *const endings[] = {".gguf", ".json", ".clef", ".safetensors", ".txt"};
    const size_t n = strlen(text);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (n > strlen(endings[i]) && strcmp(text + n - strlen(endings[i]), endings[i]) == 0)
            return !strchr(text, ':');
    return 0;
}

const char *hub_find(const char *text)
{
    char path[HUB_MOST_PATH];
    clef_error err = {0};
    hub_name name;
    if (exists(text) || is_file_name(text) || !hub_name_parse(text, &name))
        return text;
    if (find_in_cache(&name, path, &err) != CLEF_OK) {
        cli_report(&err);
        return NULL;
    }
    const char *kept_path = keep(path, text);
    if (!kept_path)
        cli_fail(CLI_FAILED, "out of host memory");
    return kept_path;
}
