/* The engine writes down a sound. */
#include <string.h>

#include "tools/serve/engine_inside.h"

typedef struct hearing {
    serve_engine *e;
    serve_embedding *w;
} hearing;

static void tell(serve_group *g)
{
    g->n_changes++;
    serve_condition_broadcast(&g->changed);
}

/* 1 to end: nobody waits for the text any more. */
static int progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    const hearing *h = user;
    (void)what, (void)done, (void)total;
    serve_lock_take(&h->e->lock);
    const int ends = h->e->ends || h->e->fail_all;
    serve_lock_release(&h->e->lock);
    return ends || atomic_load(&h->w->cancelled);
}

static clef_status add_segment(void *user, const clef_segment *segment, clef_error *err)
{
    const hearing *h = user;
    serve_embedding *w = h->w;
    serve_lock_take(&w->group->lock);
    const int ok = serve_buffer_add(&w->hearing->text, segment->text, strlen(segment->text));
    tell(w->group);
    serve_lock_release(&w->group->lock);
    return ok ? CLEF_OK : cli_error(err, CLEF_E_NOMEM, "no memory for a text");
}

/* What the model itself does not have. */
static int check(const clef_transcriber *t, const clef_transcribe_opts *o, serve_error *error)
{
    if (o->language && !clef_transcriber_knows(t, o->language))
        return serve_fail(error, SERVE_E_INVALID_VALUE, "language",
                          "language: this model does not know '%.40s'", o->language);
    return !o->translate || clef_transcriber_is_multilingual(t) ||
           serve_fail(error, SERVE_E_UNSUPPORTED, "model",
                      "this model does not translate: it knows English alone");
}

void serve_engine_hear(serve_engine *e, serve_embedding *w, serve_error *error)
{
    hearing user = {e, w};
    serve_hearing *h = w->hearing;
    clef_transcribe_opts opts = h->opts;
    clef_transcript said;
    clef_error err = {0};
    if (!check(e->transcriber, &opts, error))
        return;
    opts.progress = progress;
    opts.segment = add_segment;
    opts.progress_user = opts.segment_user = &user;
    serve_lock_take(&w->group->lock);
    h->has_begun = 1;
    tell(w->group);
    serve_lock_release(&w->group->lock);
    const clef_status s = clef_transcribe(e->transcriber, h->samples, h->n, &opts, &said, &err);
    if (s == CLEF_E_CANCELLED)
        serve_fail(error, SERVE_E_UNAVAILABLE, NULL, "the server ends");
    else if (s)
        serve_fail_status(error, &err, SERVE_E_INVALID_VALUE, "file");
    serve_lock_take(&w->group->lock);
    h->said = said;
    serve_lock_release(&w->group->lock);
    serve_engine_count_bytes(e);
}
