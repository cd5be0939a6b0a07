#include <clef/clef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static clef_error err;

static void must(clef_status status)
{
    if (status != CLEF_OK)
        fprintf(stderr, "%s\n", err.text), exit(1);
}

/* Prints 32 tokens after a prompt, always the likeliest ones. usage: generate [PROMPT [MODEL]] */
int main(int argc, char **argv)
{
    const char *prompt = argc > 1 ? argv[1] : "ROMEO:";
    clef_device *dev;
    clef_model *model;
    clef_session *session;
    clef_sampler *sampler;
    int32_t *ids, n_ids, id = 0;
    must(clef_device_open(NULL, NULL, &dev, &err));
    must(clef_model_open(argc > 2 ? argv[2] : clef_demo_model(), &model, &err));
    must(clef_session_create(dev, model, NULL, &session, &err));
    must(clef_sampler_create(clef_model_hparams(model)->n_vocab, NULL, &sampler, &err));
    clef_stream stream = {.tok = clef_model_tokenizer(model, &err),
                          .started = 1}; /* 1: the text goes on after the prompt */
    must(stream.tok ? CLEF_OK : err.status);
    must(clef_tokenizer_encode(stream.tok, prompt, strlen(prompt), CLEF_SPECIAL_ADD, &ids, &n_ids, &err));
    for (int i = 0; i < 32; i++) {
        const float *logits;
        char text[CLEF_MAX_PIECE];
        size_t n;
        must(clef_session_feed(session, i ? &id : ids, i ? 1 : n_ids, &logits, &err));
        id = clef_sampler_pick(sampler, logits);
        must(clef_stream_push(&stream, id, text, sizeof text, &n, &err));
        fwrite(text, 1, n, stdout);
    }
    clef_tokens_free(ids);
    clef_sampler_destroy(sampler);
    clef_session_destroy(session);
    clef_model_close(model);
    clef_device_close(dev);
    return 0;
}
