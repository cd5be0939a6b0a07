#include "tools/classifier.h"

#include <string.h>

int cli_classifier_open(cli_classifier *c, const cli_classifier_options *o, const char *path, clef_head head)
{
    clef_error err = {0};
    const cli_place place = {
        .device = o->device, .split = o->split, .n_threads = o->n_threads, .quiet = o->quiet};
    const int rc = cli_model_open(path, &place, &c->progress, &c->model, &c->device);
    if (rc != CLI_GO_ON)
        return rc;
    c->tokenizer = clef_model_tokenizer(c->model, NULL);
    const clef_classifier_opts opts = {
        .head = head,
        .compile = cli_compile_opts(&o->compile, &c->progress),
    };
    if (clef_classifier_create(c->device, c->model, &opts, &c->classifier, &err) != CLEF_OK)
        return cli_report(&err);
    c->info = clef_classifier_describe(c->classifier);
    return CLI_GO_ON;
}

void cli_classifier_finish(cli_classifier *c)
{
    cli_progress_finish(&c->progress);
    clef_encoded_finish(&c->text);
    clef_classifier_destroy(c->classifier);
    clef_device_close(c->device);
    clef_model_close(c->model);
}

int cli_classifier_run(cli_classifier *c, const cli_classifier_options *o, const char *a, const char *b,
                       const float **logits)
{
    clef_error err = {0};
    const clef_encode_opts opts = {.special = CLEF_SPECIAL_ADD,
                                   .max_tokens = o->truncate ? c->info.max_tokens : 0};
    clef_status status =
        clef_tokenizer_encode_pair(c->tokenizer, a, strlen(a), b, b ? strlen(b) : 0, &opts, &c->text, &err);
    if (status == CLEF_OK)
        status = clef_classify(c->classifier, c->text.ids, c->text.types, c->text.n, logits, &err);
    cli_progress_finish(&c->progress);
    if (status == CLEF_E_LIMIT && !o->truncate)
        return cli_fail(CLI_FAILED, "%s; --truncate cuts it", err.text);
    return status == CLEF_OK ? CLI_GO_ON : cli_report(&err);
}

int cli_classifier_is_mark(const cli_classifier *c, int32_t id)
{
    static const clef_token_role marks[] = {CLEF_ROLE_BOS, CLEF_ROLE_EOS, CLEF_ROLE_SEP, CLEF_ROLE_PAD,
                                            CLEF_ROLE_CLS};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (id == clef_tokenizer_role(c->tokenizer, marks[i]))
            return 1;
    return 0;
}
