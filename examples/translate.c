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

/* What an encoder-decoder makes of TEXT, by four beams. usage: translate MODEL TEXT [TARGET]; TARGET is a
 * language, as fra_Latn */
int main(int argc, char **argv)
{
    if (argc < 3)
        return fprintf(stderr, "usage: translate MODEL TEXT [TARGET]\n"), 2;
    clef_device *dev;
    clef_model *model;
    clef_session *session;
    clef_hypothesis *best;
    int32_t *source, n_source, start[3], n_start, n_best;
    char *text;
    must(clef_device_open(NULL, NULL, &dev, &err));
    must(clef_model_open(argv[1], &model, &err));
    const clef_tokenizer *tok = clef_model_tokenizer(model, &err);
    must(tok ? CLEF_OK : err.status);
    must(clef_tokenizer_encode(tok, argv[2], strlen(argv[2]), CLEF_SPECIAL_ADD, &source, &n_source, &err));
    must(clef_session_create(dev, model,
                             &(clef_session_opts){.n_source = n_source, .n_context = 64, .n_beams = 4},
                             &session, &err));
    must(clef_session_encode(session, source, n_source, &err));
    n_start = clef_session_start(session, start);
    if (argc > 3) /* the language: behind the first id, in place of one that the model would force */
        start[1] = clef_tokenizer_find(tok, argv[3]), n_start = 2;
    must(clef_session_beams(session, start, n_start, &(clef_beam_opts){.length_penalty = 1}, &best, &n_best,
                            &err));
    must(clef_tokenizer_decode(tok, best->ids, best->n, &text, NULL, &err));
    printf("%s\n", text);
    clef_text_free(text);
    clef_hypotheses_free(best, n_best);
    clef_session_destroy(session);
    clef_tokens_free(source);
    clef_model_close(model);
    clef_device_close(dev);
    return 0;
}
