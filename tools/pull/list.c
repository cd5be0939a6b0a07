/* What a repository has, and what of it a model needs. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/pull/pull.h"

enum { MOST_LIST = 32 << 20, MOST_FILES = 4096 };

/* ---- small files in memory ------------------------------------------------------------------- */

typedef struct memory {
    char *text;
    size_t n, capacity;
} memory;

static clef_status take_text(void *user, const void *data, size_t n, clef_error *err)
{
    memory *m = user;
    if (m->n + n > m->capacity) {
        const size_t capacity = 2 * (m->n + n);
        char *text = realloc(m->text, capacity);
        if (!text)
            return cli_error(err, CLEF_E_NOMEM, "out of host memory");
        m->text = text;
        m->capacity = capacity;
    }
    memcpy(m->text + m->n, data, n);
    m->n += n;
    return CLEF_OK;
}

static clef_status drop_text(void *user, clef_error *err)
{
    (void)err;
    ((memory *)user)->n = 0;
    return CLEF_OK;
}

/* ---- the list -------------------------------------------------------------------------------- */

static clef_status read_list(pull_job *job, const json_t *root, clef_error *err)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    char shown[HUB_MOST_NAME];
    const char *repo = job->name.repo, *commit = json_string_value(json_object_get(root, "sha"));
    const json_t *siblings = json_object_get(root, "siblings"), *sibling;
    size_t i;
    clef_status status = CLEF_OK;
    if (!commit || strlen(commit) < 7 || strlen(commit) > 64 || strspn(commit, letters) != strlen(commit))
        return cli_error(err, CLEF_E_FORMAT, "%s: expected a commit as \"sha\" from %s, got '%.80s'", repo,
                         job->endpoint, hub_plain(commit, shown));
    strcpy(job->commit, commit);
    if (!json_is_array(siblings))
        return cli_error(err, CLEF_E_FORMAT, "%s: expected a list \"siblings\" from %s", repo, job->endpoint);
    json_array_foreach(siblings, i, sibling) {
        const char *name = json_string_value(json_object_get(sibling, "rfilename"));
        if (!name || !hub_is_inside(name))
            return cli_error(err, CLEF_E_FORMAT,
                             "%s: expected names of files inside the repository, got '%.200s'", repo,
                             hub_plain(name, shown));
        status = hub_files_add(&job->all, name, err);
        if (status)
            return status;
    }
    return status;
}

clef_status pull_escape(const char *text, const char *keep, char out[HUB_MOST_PATH], clef_error *err)
{
    size_t n = 0;
    for (; *text && n + 4 < HUB_MOST_PATH; text++) {
        const unsigned char c = (unsigned char)*text;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr(keep, c))
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, 4, "%%%02X", c);
    }
    out[n] = '\0';
    return *text ? cli_error(err, CLEF_E_ARG, "%.200s..: this name is too long", out) : CLEF_OK;
}

static clef_status list_from(pull_job *job, const char *url, clef_error *err)
{
    memory m = {0};
    pull_body body = {.most = MOST_LIST, .take = take_text, .restart = drop_text, .user = &m};
    json_error_t problem;
    clef_status status = pull_get(job->net, url, &body, err);
    json_t *root = status ? NULL : json_loadb(m.text ? m.text : "", m.n, 0, &problem);
    if (!status && !root)
        status = cli_error(err, CLEF_E_FORMAT, "%s: expected JSON from %s: %s", job->name.repo, job->endpoint,
                           problem.text);
    if (!status)
        status = read_list(job, root, err);
    json_decref(root);
    free(m.text);
    return status;
}

clef_status pull_list(pull_job *job, clef_error *err)
{
    char revision[HUB_MOST_PATH], url[HUB_MOST_PATH];
    clef_status status = pull_escape(job->revision, "-_.~", revision, err);
    if (!status)
        status = hub_path(url, err, "%s/api/models/%s/revision/%s", job->endpoint, job->name.repo, revision);
    if (!status)
        status = list_from(job, url, err);
    const clef_error why = *err;
    if (status != CLEF_E_NOT_FOUND || strcmp(job->revision, "main") != 0)
        return status;
    /* Some mirrors list the newest files alone. */
    status = hub_path(url, err, "%s/api/models/%s", job->endpoint, job->name.repo);
    if (!status)
        status = list_from(job, url, err);
    if (status)
        *err = why;
    return status;
}

/* ---- what a model needs ---------------------------------------------------------------------- */

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* Configuration, tokenizer and templates: small files of the repository's own folder, those of further
 * modules
 * ("1_Pooling/config.json", "2_Dense/model.safetensors"), and further templates. */
static int is_small(const char *name)
{
    static const char *const endings[] = {".json", ".txt", ".model", ".jinja", ".tiktoken", ".spm"};
    const char *slash = strchr(name, '/');
    const int is_module =
        slash && name[0] >= '0' && name[0] <= '9' && name[strspn(name, "0123456789")] == '_';
    if (slash &&
        (strchr(slash + 1, '/') || (!is_module && strncmp(name, "additional_chat_templates/", 26) != 0)))
        return 0;
    if (ends_with(name, ".index.json") || ends_with(name, "trainer_state.json"))
        return 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(name, endings[i]))
            return 1;
    return is_module && ends_with(name, "/model.safetensors");
}

static clef_status want(pull_job *job, const char *name, clef_error *err)
{
    return hub_files_has(&job->wanted, name) ? CLEF_OK : hub_files_add(&job->wanted, name, err);
}

/* Adds the files that an index of weights names. */
static clef_status want_shards(pull_job *job, const char *path, clef_error *err)
{
    char shown[HUB_MOST_NAME], shown_key[HUB_MOST_NAME];
    json_error_t problem;
    json_t *root = json_load_file(path, 0, &problem), *map = json_object_get(root, "weight_map"), *value;
    const char *key;
    clef_status status = CLEF_OK;
    if (!json_is_object(map) || json_object_size(map) == 0)
        status = cli_error(err, CLEF_E_FORMAT, "%s: model.safetensors.index.json: expected a \"weight_map\"",
                           job->name.repo);
    else
        json_object_foreach(map, key, value) {
            const char *file = json_string_value(value);
            if (!file || !hub_files_has(&job->all, file))
                status = cli_error(err, CLEF_E_FORMAT,
                                   "%s: model.safetensors.index.json: expected a file of the repository for "
                                   "%.100s, got '%.200s'",
                                   job->name.repo, hub_plain(key, shown_key), hub_plain(file, shown));
            else
                status = want(job, file, err);
            if (status)
                break;
        }
    json_decref(root);
    return status;
}

static clef_status want_folder(pull_job *job, clef_error *err)
{
    static const char single[] = "model.safetensors", index[] = "model.safetensors.index.json";
    char path[HUB_MOST_PATH];
    clef_status status = CLEF_OK;
    if (hub_files_has(&job->all, single))
        status = want(job, single, err);
    else if (hub_files_has(&job->all, index)) {
        status = want(job, index, err); /* the first: the others follow from it */
        if (!status)
            status = pull_fetch(job, err);
        if (!status)
            status = pull_blob_path(job, 0, path, err);
        if (!status)
            status = want_shards(job, path, err);
    }
    if (!status && hub_files_has(&job->all, "adapter_model.safetensors"))
        status = want(job, "adapter_model.safetensors", err);
    for (int32_t i = 0; i < job->all.n && !status; i++)
        if (is_small(job->all.names[i]))
            status = want(job, job->all.names[i], err);
    return status;
}

clef_status pull_choose(pull_job *job, clef_error *err)
{
    int has_gguf = 0;
    for (int32_t i = 0; i < job->all.n; i++)
        has_gguf |= ends_with(job->all.names[i], ".gguf");
    const int is_folder = !*job->name.quant && hub_is_folder(&job->all);
    if (!is_folder && !has_gguf)
        return cli_error(err, CLEF_E_NOT_FOUND, "%s: expected %s among its %" PRId32 " files, found none",
                         job->name.repo, *job->name.quant ? "GGUF files" : "model.safetensors or GGUF files",
                         job->all.n);
    const clef_status status =
        is_folder ? want_folder(job, err) : hub_choose_gguf(&job->name, &job->all, &job->wanted, err);
    if (!status && job->wanted.n > MOST_FILES)
        return cli_error(err, CLEF_E_FORMAT, "%s: expected a model of %d files at most, got %" PRId32,
                         job->name.repo, MOST_FILES, job->wanted.n);
    return status;
}
