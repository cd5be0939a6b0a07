/* A folder with a list of its files (train/model/save.h). */
#include "train/model/save.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_MARK_BYTES = 1 << 20, MAX_CONFIG_BYTES = 256 << 20 };

static clef_status no_memory(const char *path, clef_error *err)
{
    return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to write it", path);
}

/* "folder/name" */
static clef_status join(const char *folder, const char *name, char out[CLEF_SAVE_PATH_BYTES], clef_error *err)
{
    if (snprintf(out, CLEF_SAVE_PATH_BYTES, "%s/%s", folder, name) >= CLEF_SAVE_PATH_BYTES)
        return clef__fail(err, CLEF_E_LIMIT, "%.80s...: a path of more than %d bytes", folder,
                          CLEF_SAVE_PATH_BYTES - 1);
    return CLEF_OK;
}

/* ---- what is there already */

/* Finds an entry of a folder that is not empty. */
typedef struct look {
    char any[256], folder[256]; /* the name of an entry; of one that is a folder */
} look;

static clef_status look_at(void *user, const char *name, int is_folder)
{
    look *l = user;
    snprintf(is_folder ? l->folder : l->any, sizeof l->any, "%s", name);
    return CLEF_OK;
}

/* *list is the list of files in the folder's mark, or NULL if there is no folder, or it is empty. */
static clef_status read_mark(const char *path, json_t **list, clef_error *err)
{
    static const char expected[] = "expected nothing there, an empty folder, or one that clef train wrote";
    char file[CLEF_SAVE_PATH_BYTES];
    json_t *mark = NULL;
    look l = {{0}, {0}};
    *list = NULL;
    if (clef__os_is_file(path))
        return clef__fail(err, CLEF_E_IO, "%s: is a file: %s", path, expected);
    clef_status status = clef__os_entries(path, look_at, &l, err);
    if (status || (!l.any[0] && !l.folder[0]))
        return status;
    status = join(path, CLEF_TRAIN_MARK, file, err);
    if (status)
        return status;
    const char *strange = l.folder[0] ? l.folder : l.any;
    if (!clef__os_is_file(file))
        return clef__fail(err, CLEF_E_IO, "%s: has %s: %s", path, strange, expected);
    status = clef__json_load(file, MAX_MARK_BYTES, &mark, err);
    if (!status) {
        *list = json_incref(json_object_get(mark, "files"));
        if (!json_is_array(*list))
            status = clef__fail(err, CLEF_E_IO, "%s: has no list of files: %s", file, expected);
        else if (l.folder[0])
            status = clef__fail(err, CLEF_E_IO, "%s: has a folder %s, which clef train did not write", path,
                                strange);
    }
    json_decref(mark);
    if (status) {
        json_decref(*list);
        *list = NULL;
    }
    return status;
}

clef_status clef_train_check_folder(const char *path, clef_error *err)
{
    json_t *list = NULL;
    if (!path || !path[0])
        return clef__fail(err, CLEF_E_ARG, "the folder to write: expected a name, got none");
    const clef_status status = read_mark(path, &list, err);
    json_decref(list);
    return status;
}

clef_status clef_train_claim_folder(const char *path, clef_error *err)
{
    char file[CLEF_SAVE_PATH_BYTES];
    static const char mark[] = "{\"written_by\": \"clef train\", \"files\": []}\n";
    clef_status status = clef_train_check_folder(path, err);
    if (!status)
        status = join(path, CLEF_TRAIN_MARK, file, err);
    if (status || clef__os_is_file(file))
        return status;
    status = clef__os_make_dirs(path, err);
    return status ? status : clef__os_write(file, mark, sizeof mark - 1, err);
}

/* ---- writing */

clef_status clef__save_begin(const char *path, clef__save *out, clef_error *err)
{
    *out = (clef__save){.path = path};
    if (!path || !path[0])
        return clef__fail(err, CLEF_E_ARG, "the folder to write: expected a name, got none");
    clef_status status = read_mark(path, &out->old, err);
    if (status)
        return status;
    out->files = json_array();
    status = out->files ? clef__os_folder_begin(path, &out->folder, err) : no_memory(path, err);
    if (status)
        clef__save_abort(out);
    return status;
}

static clef_status path_of(const clef__save *s, const char *name, char out[CLEF_SAVE_PATH_BYTES],
                           clef_error *err)
{
    return join(clef__os_folder_path(s->folder), name, out, err);
}

static clef_status add_name(clef__save *s, const char *name, clef_error *err)
{
    return json_array_append_new(s->files, json_string(name)) == 0 ? CLEF_OK : no_memory(s->path, err);
}

/* The text of a value, with the fewest digits that give it back. NULL when out of memory: then jansson 2.14
 * may drop entries, so that the text is parsed again and compared. */
static char *json_text(const json_t *value)
{
    for (size_t digits = 15; digits <= 17; digits += 2) {
        json_t *again = NULL;
        char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
        if (!text)
            return NULL;
        const int same = clef__json_parse(text, strlen(text), "text", &again, NULL) == CLEF_OK &&
                         json_equal((json_t *)(uintptr_t)value, again);
        json_decref(again);
        if (same)
            return text;
        free(text);
    }
    return NULL;
}

clef_status clef__save_bytes(clef__save *s, const char *name, const char *text, size_t n, clef_error *err)
{
    char path[CLEF_SAVE_PATH_BYTES];
    clef_os_file *file = NULL;
    clef_status status = path_of(s, name, path, err);
    if (!status)
        status = clef__os_file_begin(path, &file, err);
    if (!status)
        status = clef__os_file_write(file, text, n, err);
    if (!status) {
        status = clef__os_file_commit(file, err);
        file = NULL;
    }
    clef__os_file_abort(file);
    return status ? status : add_name(s, name, err);
}

clef_status clef__save_json(clef__save *s, const char *name, const json_t *value, clef_error *err)
{
    char *text = json_text(value);
    const size_t n = text ? strlen(text) : 0;
    if (text)
        text[n] = '\n'; /* in the place of the NUL */
    const clef_status status = text ? clef__save_bytes(s, name, text, n + 1, err) : no_memory(s->path, err);
    free(text);
    return status;
}

clef_status clef__save_copy(clef__save *s, const char *folder, const char *name, clef_error *err)
{
    char from[CLEF_SAVE_PATH_BYTES], to[CLEF_SAVE_PATH_BYTES];
    clef_mapping file = {0};
    clef_status status = join(folder, name, from, err);
    if (status || !clef__os_is_file(from))
        return status;
    status = clef__os_map(from, &file, err);
    if (!status)
        status = path_of(s, name, to, err);
    if (!status)
        status = clef__os_write(to, file.data, file.n_bytes, err);
    clef__os_unmap(&file);
    return status ? status : add_name(s, name, err);
}

clef_status clef__save_tokenizer(clef__save *s, const char *folder, clef_error *err)
{
    static const char *const names[] = {
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
        "vocab.txt",
        "tokenizer.model",
        "spiece.model",
        "sentencepiece.bpe.model",
        "source.spm",
        "target.spm",
        "qwen.tiktoken",
        "chat_template.jinja",
        "chat_template.json",
        "tekken.json",
    };
    clef_status status = CLEF_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++)
        status = clef__save_copy(s, folder, names[i], err);
    return status;
}

void clef__save_abort(clef__save *s)
{
    clef__os_folder_abort(s->folder);
    json_decref(s->files);
    json_decref(s->old);
    *s = (clef__save){0};
}

static int is_listed(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *item = json_string_value(json_array_get(list, i));
        if (item && strcmp(item, name) == 0)
            return 1;
    }
    return 0;
}

typedef struct keeping {
    clef__save *save;
    clef_error *err;
} keeping;

/* Files that stay: those of neither list. */
static clef_status keep_entry(void *user, const char *name, int is_folder)
{
    const keeping *k = user;
    if (is_folder || is_listed(k->save->files, name) || is_listed(k->save->old, name))
        return CLEF_OK;
    return clef__os_folder_keep(k->save->folder, name, k->err);
}

clef_status clef__save_commit(clef__save *s, clef_error *err)
{
    clef_os_folder *folder = s->folder;
    keeping k = {.save = s, .err = err};
    json_t *mark = NULL;
    clef_status status = add_name(s, CLEF_TRAIN_MARK, err);
    if (!status) {
        mark = json_pack("{s:s, s:O}", "written_by", "clef train", "files", s->files);
        status = mark ? clef__save_json(s, CLEF_TRAIN_MARK, mark, err) : no_memory(s->path, err);
    }
    json_decref(mark);
    if (!status && s->old)
        status = clef__os_entries(s->path, keep_entry, &k, err);
    if (!status) {
        s->folder = NULL;
        status = clef__os_folder_commit(folder, err);
    }
    clef__save_abort(s);
    return status;
}
