#include <clef/clef.h>
#include <stdio.h>
#include <string.h>

/* Prints 32 tokens after a prompt, always the likeliest ones. usage: generate [PROMPT [MODEL]] */
int main(int argc, char **argv)
{
    const char *prompt = argc > 1 ? argv[1] : "ROMEO:", *path = argc > 2 ? argv[2] : clef_demo_model();
    clef_error err = {0};
    clef_device *dev = NULL;
    clef_model *model = NULL;
    clef_session *session = NULL;
    clef_sampler *sampler = NULL;
    const clef_tokenizer *tok = NULL;
    int32_t *ids = NULL, n_ids = 0, id = 0;
    int failed = clef_device_open(NULL, NULL, &dev, &err) || clef_model_open(path, &model, &err) ||
                 !(tok = clef_model_tokenizer(model, &err)) ||
                 clef_tokenizer_encode(tok, prompt, strlen(prompt), CLEF_SPECIAL_ADD, &ids, &n_ids, &err) ||
                 clef_session_create(dev, model, &(clef_session_opts){0}, &session, &err) ||
                 clef_sampler_create(clef_model_hparams(model)->n_vocab, &(clef_sampler_opts){0}, &sampler, &err);
    clef_stream stream = {.tok = tok, .started = 1}; /* 1: the text goes on after the prompt */
    for (int i = 0; !failed && i < 32; i++) {
        const float *logits;
        char text[CLEF_MAX_PIECE];
        size_t n = 0;
        failed = clef_session_feed(session, i ? &id : ids, i ? 1 : n_ids, &logits, &err) != CLEF_OK;
        if (failed)
            break;
        id = clef_sampler_pick(sampler, logits);
        failed = clef_stream_push(&stream, id, text, sizeof text, &n, &err) != CLEF_OK;
        fwrite(text, 1, n, stdout);
    }
    if (failed)
        fprintf(stderr, "%s\n", err.text);
    clef_sampler_destroy(sampler);
    clef_session_destroy(session);
    clef_tokens_free(ids);
    clef_model_close(model);
    clef_device_close(dev);
    return failed;
}
