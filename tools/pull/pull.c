/* Pulls a model: what there is, what is needed, the files, and their names in the cache. */
#include "tools/pull/pull.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/terminal.h"
#include "tools/pull/store.h"

enum { MOST_TOKEN = 512 };

/* ---- the environment ------------------------------------------------------------------------- */

static int is_on(const char *variable)
{
    const char *value = getenv(variable);
    return value &&
           (!strcmp(value, "1") || !strcmp(value, "ON") || !strcmp(value, "on") || !strcmp(value, "YES") ||
            !strcmp(value, "yes") || !strcmp(value, "TRUE") || !strcmp(value, "true"));
}

/* The file that `hf auth login` writes. */
static FILE *open_token(void)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"HF_TOKEN_PATH", ""},
                  {"HF_HOME", "/token"},
                  {"XDG_CACHE_HOME", "/huggingface/token"},
                  {"HOME", "/.cache/huggingface/token"}};
    char path[HUB_MOST_PATH];
    clef_error err;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);
        if (value && *value)
            return hub_path(path, &err, "%s%s", value, places[i].below) ? NULL : fopen(path, "rb");
    }
    return NULL;
}

/* The token, without white space around it; "" for none. */
static clef_status find_token(char out[MOST_TOKEN], clef_error *err)
{
    const char *value = getenv("HF_TOKEN");
    value = value && *value ? value : getenv("HUGGING_FACE_HUB_TOKEN");
    FILE *file = value && *value ? NULL : open_token();
    size_t n = file ? fread(out, 1, MOST_TOKEN - 1, file) : 0;
    if (file)
        fclose(file);
    out[n] = '\0';
    if (value && *value)
        n = (size_t)snprintf(out, MOST_TOKEN, "%s", value);
    const size_t begin = strspn(out, " \t\r\n");
    const size_t end = begin + strcspn(out + begin, " \t\r\n");
    int is_plain = n < MOST_TOKEN - 1 && out[end + strspn(out + end, " \t\r\n")] == '\0';
    for (size_t i = begin; i < end; i++)
        is_plain &= out[i] > 0x20 && out[i] < 0x7f;
    if (!is_plain)
        return cli_error(err, CLEF_E_ARG, "HF_TOKEN: expected one word of ASCII of fewer than %d letters",
                         MOST_TOKEN - 1);
    memmove(out, out + begin, end - begin);
    out[end - begin] = '\0';
    return CLEF_OK;
}

static clef_status find_endpoint(char out[HUB_MOST_NAME], clef_error *err)
{
    const char *value = getenv("HF_ENDPOINT");
    value = value && *value ? value : "https://huggingface.co";
    size_t n = strlen(value);
    while (n > 0 && value[n - 1] == '/')
        n--;
    if ((strncmp(value, "https://", 8) != 0 && strncmp(value, "http://", 7) != 0) || n >= HUB_MOST_NAME)
        return cli_error(err, CLEF_E_ARG, "HF_ENDPOINT: expected https://HOST, got '%.200s'", value);
    memcpy(out, value, n);
    out[n] = '\0';
    return CLEF_OK;
}

/* ---- names in the cache ---------------------------------------------------------------------- */

static clef_status link_file(const pull_job *job, int32_t i, clef_error *err)
{
    char path[HUB_MOST_PATH], target[HUB_MOST_PATH], up[HUB_MOST_PATH] = "../../";
    const char *name = job->wanted.names[i];
    size_t n = strlen(up);
    for (const char *slash = strchr(name, '/'); slash && n + 4 < sizeof up; slash = strchr(slash + 1, '/'))
        n += (size_t)snprintf(up + n, sizeof up - n, "../");
    clef_status status = hub_path(path, err, "%s/snapshots/%s/%s", job->folder, job->commit, name);
    if (!status)
        status = hub_path(target, err, "%sblobs/%s", up, job->files[i].etag);
    return status ? status : pull_store_link(path, target, err);
}

/* Only now, when all files are there, a snapshot and what "main" stands for change. */
static clef_status name_files(const pull_job *job, clef_error *err)
{
    char path[HUB_MOST_PATH];
    clef_status status = CLEF_OK;
    for (int32_t i = 0; i < job->n_files && !status; i++)
        status = link_file(job, i, err);
    if (status || strcmp(job->revision, job->commit) == 0)
        return status;
    status = hub_path(path, err, "%s/refs/%s", job->folder, job->revision);
    return status ? status : pull_store_text(path, job->commit, err);
}

static void say_result(const pull_job *job)
{
    char all[24], got[24];
    uint64_t n_bytes = 0;
    for (int32_t i = 0; i < job->n_files; i++)
        n_bytes += job->files[i].n_bytes;
    if (!job->quiet)
        fprintf(stderr, "clef: %s: %" PRId32 " files, %s, of which %s were pulled now\n", job->name.repo,
                job->n_files, cli_bytes_text(n_bytes, all), cli_bytes_text(job->n_got, got));
    const char *first = job->wanted.names[0];
    const size_t n = strlen(first);
    printf("%s/snapshots/%s", job->folder, job->commit);
    if (n > 5 && strcmp(first + n - 5, ".gguf") == 0)
        printf("/%s", first);
    putchar('\n');
}

/* ---- the work -------------------------------------------------------------------------------- */

static clef_status pull(pull_job *job, clef_error *err)
{
    clef_status status = hub_repo_folder(&job->name, job->folder, err);
    if (!status)
        status = pull_list(job, err);
    if (!status)
        status = pull_store_begin(job->folder, err);
    if (!status)
        status = pull_choose(job, err);
    if (!status)
        status = pull_fetch(job, err);
    return status ? status : name_files(job, err);
}

static clef_status begin(pull_job *job, const pull_opts *o, cli_progress *progress, clef_error *err)
{
    static char endpoint[HUB_MOST_NAME], token[MOST_TOKEN];
    char shown[HUB_MOST_NAME];
    clef_status status = find_endpoint(endpoint, err);
    if (!status)
        status = find_token(token, err);
    if (!status && (!hub_name_parse(o->model, &job->name) || !hub_is_inside(o->revision)))
        status = cli_error(err, CLEF_E_ARG, "pull: expected org/repo or org/repo:QUANT%s, got '%.200s'",
                           hub_is_inside(o->revision) ? "" : " and a --revision", hub_plain(o->model, shown));
    if (!status && (is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE")))
        status = cli_error(err, CLEF_E_ARG, "pull: HF_HUB_OFFLINE is set, so nothing can be pulled");
    job->endpoint = endpoint;
    job->revision = o->revision;
    const pull_net_opts net = {
        .endpoint = endpoint, .token = *token ? token : NULL, .repo = job->name.repo, .progress = progress};
    return status ? status : pull_net_open(&net, &job->net, err);
}

int pull_model(const pull_opts *o)
{
    clef_error err = {0};
    cli_progress progress;
    pull_job job = {.quiet = o->quiet};
    cli_terminal_catch_interrupt();
    cli_progress_init(&progress, o->quiet);
    clef_status status = begin(&job, o, &progress, &err);
    if (!status)
        status = pull(&job, &err);
    cli_progress_finish(&progress);
    if (!status)
        say_result(&job);
    pull_net_close(job.net);
    hub_files_free(&job.all);
    hub_files_free(&job.wanted);
    free(job.files);
    if (status == CLEF_E_ARG) {
        cli_report(&err);
        return CLI_USAGE;
    }
    return status ? cli_report(&err) : CLI_OK;
}
