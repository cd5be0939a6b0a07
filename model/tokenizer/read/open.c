/* Opening a tokenizer: which reader a path needs. */
#include <string.h>

#include "model/file/ggml.h"
#include "model/tokenizer/read/formats.h"
#include "runtime/os/os.h"

/* The files of a folder that hold a tokenizer, the most trusted first. */
static const struct {
    const char *name;
    clef_status (*read)(clef_tokenizer *tok, const char *path, clef_error *err);
} file_kinds[] = {
    {"tokenizer.json", clef__tokenizer_read_json}, {"tokenizer.model", clef__tokenizer_read_spm},
    {"spiece.model", clef__tokenizer_read_spm},    {"sentencepiece.bpe.model", clef__tokenizer_read_spm},
    {"vocab.json", clef__tokenizer_read_vocab},    {"vocab.txt", clef__tokenizer_read_txt},
    {"qwen.tiktoken", clef__tokenizer_read_spm},
};

enum { N_FILE_KINDS = sizeof file_kinds / sizeof *file_kinds };

/* The first kind whose file the folder has; N_FILE_KINDS when it has none. */
static clef_status find_file(const char *folder, char *file, size_t capacity, size_t *kind, clef_error *err)
{
    for (*kind = 0; *kind < N_FILE_KINDS; ++*kind) {
        const clef_status st = clef__beside(folder, file_kinds[*kind].name, file, capacity, err);
        if (st || clef__os_is_file(file))
            return st;
    }
    return CLEF_OK;
}

const char *clef__tokenizer_file(const char *folder)
{
    char file[CLEF_TOKENIZER_PATH];
    size_t kind;
    return find_file(folder, file, sizeof file, &kind, NULL) == CLEF_OK && kind < N_FILE_KINDS
               ? file_kinds[kind].name
               : NULL;
}

/* Puts the file's name before a message about its contents. Messages that begin with `path` have it
 * already. */
static clef_status name_file(const char *path, const char *file, clef_status status, clef_error *err)
{
    if (!status || !err || strncmp(err->text, path, strlen(path)) == 0)
        return status;
    const clef_error why = *err;
    return clef__fail(err, status, "%s: %.600s", file, why.text);
}

/* Remembers the file, for clef__tokenizer_digest(). */
static clef_status keep_path(clef_tokenizer *tok, const char *file, clef_error *err)
{
    tok->file = clef__text_arena_copy(&tok->stages.texts, file, strlen(file));
    return tok->file ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "%s: no memory for its name", file);
}

static int is_tiktoken(const char *path)
{
    clef_mapping file;
    if (clef__os_map(path, &file, NULL))
        return 0;
    const int is = clef__is_tiktoken(file.data, file.n_bytes);
    clef__os_unmap(&file);
    return is;
}

/* Reads a folder's file with those beside it. A file that is opened itself counts alone. */
static clef_status read_beside(clef_tokenizer *tok, const char *file,
                               clef_status (*alone)(clef_tokenizer *tok, const char *path, clef_error *err),
                               clef_error *err)
{
    int is_read = 0;
    const clef_status st = alone == clef__tokenizer_read_spm && is_tiktoken(file)
                               ? CLEF_OK
                               : clef__tokenizer_read_beside(tok, file, &is_read, err);
    return st || is_read ? st : alone(tok, file, err);
}

static clef_status read_folder(clef_tokenizer *tok, const char *path, clef_error *err)
{
    char file[CLEF_TOKENIZER_PATH];
    size_t kind;
    clef_status st = find_file(path, file, sizeof file, &kind, err);
    if (st == CLEF_OK && kind < N_FILE_KINDS)
        st = keep_path(tok, file, err);
    if (st)
        return st;
    if (kind < N_FILE_KINDS)
        return name_file(path, file, read_beside(tok, file, file_kinds[kind].read, err), err);
    char known[256] = "";
    for (size_t i = 0; i < N_FILE_KINDS; i++)
        strcat(strcat(known, i ? ", " : ""), file_kinds[i].name);
    return clef__fail(err, CLEF_E_NOT_FOUND, "%s: no tokenizer file; expected one of %s", path, known);
}

static int ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), n_end = strlen(end);
    return n >= n_end && strcmp(path + n - n_end, end) == 0;
}

static clef_status read_file(clef_tokenizer *tok, const char *path, clef_error *err)
{
    if (ends_with(path, "vocab.json") || ends_with(path, "merges.txt"))
        return clef__tokenizer_read_vocab(tok, path, err);
    if (ends_with(path, ".txt"))
        return clef__tokenizer_read_txt(tok, path, err);
    clef_mapping file;
    const clef_status st = clef__os_map(path, &file, err);
    if (st)
        return st;
    const char *text = file.data;
    const int is_gguf =
        (file.n_bytes >= 4 && memcmp(text, "GGUF", 4) == 0) || clef__is_ggml(text, file.n_bytes);
    const int is_json = ends_with(path, ".json") || (file.n_bytes > 0 && text[0] == '{');
    clef__os_unmap(&file);
    if (is_gguf)
        return clef__tokenizer_read_gguf(tok, path, err);
    return is_json ? clef__tokenizer_read_json(tok, path, err) : clef__tokenizer_read_spm(tok, path, err);
}

clef_status clef_tokenizer_open(const char *path, clef_tokenizer **out, clef_error *err)
{
    if (!out)
        return clef__fail(err, CLEF_E_ARG, "tokenizer: out is NULL");
    *out = NULL;
    if (!path)
        return clef__fail(err, CLEF_E_ARG, "tokenizer: path is NULL");
    clef_tokenizer *tok = clef__tokenizer_new();
    if (!tok)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory for a tokenizer", path);
    clef_status st = clef__os_is_dir(path) ? CLEF_OK : keep_path(tok, path, err);
    if (st == CLEF_OK)
        st = tok->file ? read_file(tok, path, err) : read_folder(tok, path, err);
    if (!st) {
        *out = tok;
        return CLEF_OK;
    }
    clef_tokenizer_close(tok);
    return name_file(path, path, st, err);
}
