/* The fields of a batch, for the files that share it. */
#ifndef CLEF_MODEL_BATCH_H
#define CLEF_MODEL_BATCH_H

#include "clef/batch.h"
#include "model/batch/pages.h"
#include "model/plan_io.h"
#include "model/session/guide.h"
#include "model/session/thought.h"
#include "model/session/sampler.h"
#include "runtime/os/sha256.h"
#include "runtime/plan/plan_state.h"

/* Recurrent states are kept at multiples of this, and at a prompt's end. */
enum { SNAPSHOT_STEP = 256 };

/* The most tokens that are drafted at once, and what a draft model drafts. */
enum { MOST_DRAFTS = 8, DEFAULT_DRAFT = 4 };

/* The most tokens by which the memory of recurrent layers may be behind the text before a step without draft
 * tokens catches up. */
enum { MOST_BEHIND = 8 };

/* The fewest tokens that are looked for in a text. Two occur twice in much prose, without the same after
 * them; three hardly ever do. */
enum { DEFAULT_NGRAM_MIN = 3 };

/* A request and what became of it. It waits while slot is NO_SLOT. */
enum { NO_SLOT = -1 };
typedef struct clef__disk clef__disk;
typedef struct batch_sequence {
    int64_t number; /* the order of arrival */
    int32_t slot;   /* its row in the page tables, and its recurrent states */
    int32_t is_paused;
    int32_t *tokens; /* [n_most]: the prompt, then what was generated */
    int32_t n_tokens, n_prompt, n_most;
    int32_t n_past; /* tokens in the cache */
    /* The memory of recurrent layers has n_behind tokens fewer, which the next step feeds again: it was
     * brought back after draft tokens that were wrong */
    int32_t n_behind;
    int32_t spare; /* where that memory is kept during a step with draft tokens */
    int32_t *source, n_source;
    int32_t *stops, n_stops, ignore_eos;
    clef__pages_key key;
    clef__chain chain;
    unsigned char digest[CLEF_SHA256_BYTES]; /* of its first n_digested blocks (disk.h) */
    int32_t n_digested, was_on_disk;         /* 1: what files have of it was brought back */
    sample_options sampling; /* off: the host samples */
    clef_sampler *sampler;   /* NULL, or the host samples with it */
    double mu;               /* of the sampler */
    clef__rules_place rules; /* its rules are NULL: none */
    clef__guide guide;       /* no mask: none */
    clef__guide_place place;
    clef__thought thought;   /* over: no limit */
    uint32_t stream;
    int32_t logprobs, n_top;
    int32_t n_min;     /* no end token before so many tokens of the text */
    uint32_t *no_ends; /* with n_min: the mask of all tokens that do not end the text; else NULL */
    int32_t n_drafted, n_accepted;
    int32_t n_rows, first_sample;          /* in the present step */
    int32_t *forced, n_forced;             /* the first samples */
    int32_t drafts[MOST_DRAFTS], n_drafts; /* draft tokens, the last of the rows */
    int32_t n_wanted;                      /* how many to draft the next time; 0: as at first */
    int32_t no_speculation;
    int32_t n_asked;         /* of the draft, in the present step */
    int32_t n_pauses, pause; /* steps without draft tokens after a wrong one, and those that are left */
    int32_t n_cached;        /* of the prompt, when it first began; -1: it has not begun */
    int32_t n_preemptions;
    /* Hidden states of the last n_hidden tokens in the cache, which the further layer has not seen */
    float *hidden;
    int32_t n_hidden, cap_hidden, first_row; /* first_row: of the present step */
    struct batch_sequence *mirror; /* in the draft's batch; NULL: none */
    int32_t n_agreed;              /* of a mirror: its first tokens, which its sequence has, too */
    clef_request_picture *pictures; /* [n_pictures], with rows of their own */
    int32_t n_pictures;
    int32_t *keys; /* with pictures: as tokens, but what the prefix cache knows their rows by; else NULL */
} batch_sequence;

/* An input of the steps: what the present one needs, and what the device has. */
typedef struct batch_input {
    int32_t *now, *sent; /* each with room for the longest */
    int32_t n_sent;      /* 0: nothing */
} batch_input;

/* The inputs of a step, as the host fills them, and its results. */
typedef struct batch_rows {
    batch_input ids, pos, source_end, adapter; /* [n_rows] */
    batch_input samples;                       /* [n_samples] */
    batch_input sampling, recent;              /* [n_samples, SAMPLE_OPTIONS], [n_samples, CLEF_RECENT] */
    batch_input runs;                          /* [n_runs, 3] */
    int32_t *pages, *sliding_pages;            /* [max_sequences, n_pages of a sequence] */
    int32_t *sampled;                          /* [n_samples]: tokens that the device sampled */
    float *logits;                             /* [most_samples, n_vocab] */
    int32_t n_rows, n_runs, n_samples;
    int32_t visible; /* the last position + 1 */
    int32_t tables_changed;
    int32_t has_logits; /* the step's logits were read, and not `sampled` */
} batch_rows;

/* The inputs that rows of pictures need (clef_build_opts.pictures). */
typedef struct batch_picture_rows {
    batch_input is_token, turns[3], sees, sees_from;
    float *rows;    /* [step_tokens, 1 + deep, d] */
    int32_t n_used; /* rows up to the last one of a picture */
    int32_t n_zeros; /* the device has zeros in so many first rows */
} batch_picture_rows;

/* The encoder of an encoder-decoder. */
typedef struct batch_encoder {
    clef_plan *plan;
    clef__plan_io io;
    float *rows, *page; /* an output of the plan, and one page of it */
    size_t rows_bytes, page_bytes;
    int32_t *ends;            /* [max_sequences]: the last position of each slot's source */
    clef__plan_state *states; /* of the decoder's plan, whole on several ranks */
    int32_t *outputs;         /* the plan's output for each of them; -1: none */
    int32_t n_states;
} batch_encoder;

/* The layer that predicts further tokens: a plan of its own, whose pages have the numbers of the batch's. */
typedef struct batch_further {
    clef_plan *plan; /* NULL: none */
    clef__plan_io io;
    clef__plan_state *states;
    int32_t n_states, width;   /* of a hidden state */
    float *hidden, *next;      /* [n_rows of a step, width]: its input, or the steps' output; its output */
    batch_input ids, pos, runs, samples, adapter, pages, sampling, recent;
    int32_t *token;            /* [n_samples] */
    batch_sequence **sampling_for; /* [n_samples] */
    int32_t n_rows, n_runs, n_samples, visible;
} batch_further;

/* What steps in which all sequences generate take, and give, with draft tokens and without: running means. */
typedef struct batch_gain {
    int32_t n_running;        /* of which the means are; other numbers begin anew */
    int32_t n_plain, n_spec;  /* steps so far */
    double plain, spec;       /* seconds */
    double tokens;            /* of a sequence in a step with draft tokens */
    int32_t off, next_off;    /* steps without draft tokens that are left, and the next time */
    int32_t is_even, has_any; /* of the present step: it is like others, since all sequences generate; there
                                 are draft tokens */
} batch_gain;

struct clef_batch {
    const clef_hparams *hp;
    clef_device *dev;
    clef_model *model;
    clef_batch_opts opts;
    clef_build_opts build;
    clef_plan *plan;
    clef__plan_io io;
    batch_rows rows;
    batch_picture_rows picture_rows;
    batch_encoder encoder;
    clef__pages *pages;
    clef__disk *disk;         /* NULL: no pages in files */
    clef__plan_state *states; /* of the plan */
    int32_t n_states;
    int32_t n_each; /* pages of a sequence */
    int32_t is_recurrent, has_full, has_sliding;
    int32_t n_snapshots; /* rows of recurrent states for the prefix cache; behind them is a spare for each
                            sequence that has draft tokens */
    const char *no_prefix_cache, *no_speculation;
    int32_t most_samples;   /* of a step */
    batch_sequence **all; /* in order of arrival */
    int32_t n_all, cap_all;
    batch_sequence **slots; /* [max_sequences]: NULL where free */
    int64_t next_number;
    clef_batch_token *tokens; /* a ring of sampled tokens */
    int32_t n_tokens, first_token, cap_tokens;
    clef_candidate *candidates; /* [n_vocab], for samples */
    clef__sampler_room room;    /* for samples of samplers */
    clef_batch_stats stats;
    clef_batch *draft; /* NULL, or the batch of opts.draft, with a mirror of each sequence */
    batch_further further;
    batch_gain gain;
    uint64_t beside_bytes; /* of device memory that others need */
};

/* ---- plan.c: the plan and its memory ------------------------------------------------------------ */

/** Sizes the pool, makes the plans, and looks up their inputs. */
clef_status clef__batch_open(clef_batch *b, clef_error *err);
void clef__batch_close(clef_batch *b);
/** Enqueues the copy of rows between pages that the bookkeeping asked for. */
clef_status clef__batch_copy(clef_batch *b, const clef__page_copy *copy, clef_error *err);
/** Enqueues the copy of one row of all recurrent states to another. */
clef_status clef__batch_copy_memory(clef_batch *b, int32_t to, int32_t from, clef_error *err);
/** Bytes of device memory of the weights and of the pool. */
uint64_t clef__batch_device_bytes(const clef_batch *b);
/** Runs the encoder for a sequence's source, and fills the pages of its slot. */
clef_status clef__batch_encode(clef_batch *b, const batch_sequence *s, clef_error *err);
/** Makes a plan of the batch's model. */
clef_status clef__batch_plan(const clef_batch *b, const clef_build_opts *build, clef_plan **out,
                             clef_error *err);

/* ---- schedule.c: who runs in a step -------------------------------------------------------------- */

/** Starts waiting sequences where there is room, and chooses the rows of the next step: n_rows of each
 * sequence. Sets sequences back where the pool is full. Returns the sum in *n. */
clef_status clef__batch_schedule(clef_batch *b, int32_t *n, clef_error *err);
/** Starts s if there are a slot and pages for its tokens, and no running sequence computes what both need. */
typedef enum clef__start { CLEF__STARTED, CLEF__NO_ROOM, CLEF__WAITS_FOR_PREFIX } clef__start;
clef_status clef__batch_start(clef_batch *b, batch_sequence *s, clef__start *what, clef_error *err);
/** Takes a sequence off the device. Its tokens stay, and are computed again when it starts the next time. */
void clef__batch_preempt(clef_batch *b, batch_sequence *s);

/* ---- speculate.c --------------------------------------------------------------------------------- */

/** Drafts tokens for the next step: n_drafts of each sequence that generates. */
clef_status clef__batch_draft_tokens(clef_batch *b, clef_error *err);
/** Notes how many of the draft tokens were right. */
void clef__batch_learn(clef_batch *b, batch_sequence *s, int32_t n_accepted);
/** Notes what the step took, and how many tokens it sampled. */
void clef__batch_weigh(clef_batch *b, double seconds, int64_t n_sampled);

/* ---- draft.c ------------------------------------------------------------------------------------- */

/** Makes the batch of opts.draft. */
clef_status clef__draft_open(clef_batch *b, clef_error *err);
/** Drafts n_asked tokens for each sequence, or fewer where the draft model has no room or lacks its text. */
clef_status clef__draft_tokens(clef_batch *b, clef_error *err);

/* ---- further.c ----------------------------------------------------------------------------------- */

/** Room for the layer that predicts further tokens, and its plan. */
clef_status clef__further_open(clef_batch *b, clef_error *err);
void clef__further_close(clef_batch *b);
void clef__further_free(clef_batch *b);
/** Reads the hidden states of all rows of the step that has run. */
clef_status clef__further_read(clef_batch *b, clef_error *err);
/** Keeps those of n rows of s from `row` of the step on, for the tokens up to n_past. */
clef_status clef__further_keep(clef_batch *b, batch_sequence *s, int32_t row, int32_t n, clef_error *err);
/** Shows the layer what it has not seen, where that has become much. */
clef_status clef__further_follow(clef_batch *b, clef_error *err);
/** Drafts n_asked tokens for each sequence, or fewer where there is no room. */
clef_status clef__further_draft(clef_batch *b, clef_error *err);

/* ---- vocabulary.c -------------------------------------------------------------------------------- */

/** CLEF_E_ARG, naming the first difference, unless both models have the same tokens. */
clef_status clef__same_vocabulary(clef_model *model, clef_model *draft, clef_error *err);

/* ---- step.c -------------------------------------------------------------------------------------- */

/** The position of the first row that s feeds in the next step. */
int32_t clef__batch_first_row(const batch_sequence *s);
/** Whether s has computed all but its last token. */
int clef__batch_generates(const batch_sequence *s);
/** Whether token id would end the text of s. */
int clef__batch_ends_text(const clef_batch *b, const batch_sequence *s, int32_t id);
/** Writes the pages of s to the tables of the batch. */
void clef__batch_fill_table(clef_batch *b, const batch_sequence *s);
/** Positions that a step which sees `visible` is made for. */
int32_t clef__batch_seen(const clef_batch *b, int32_t visible);
/** Writes an input of a plan, of n numbers, unless the device has them. input -1: the plan has none. */
clef_status clef__batch_write(clef_plan *plan, int32_t input, batch_input *x, int32_t n, clef_error *err);
/** Runs the scheduled rows, and notes what was computed and sampled. */
clef_status clef__batch_run(clef_batch *b, clef_error *err);

/* ---- pictures.c ---------------------------------------------------------------------------------- */

clef_status clef__batch_check_pictures(const clef_batch *b, const clef_request *r, clef_error *err);
/** Copies a request's pictures to its sequence. 0: no memory. */
int  clef__batch_take_pictures(const clef_batch *b, batch_sequence *s, const clef_request *r);
void clef__batch_free_pictures(batch_sequence *s);
/** What the prefix cache knows the text of s by: its tokens, with other numbers for those of pictures. */
const int32_t *clef__batch_keys(const batch_sequence *s);
/** The most positions, up to `end`, that a step may end with: rows that see each other belong into one. */
int32_t clef__batch_uncut(const clef_batch *b, const batch_sequence *s, int32_t end);
/** Fills row `row` of the step, which is that of position `at` of s. */
void clef__batch_picture_row(clef_batch *b, const batch_sequence *s, int32_t row, int32_t at);
/** Forgets the rows of the step before. */
void clef__batch_clear_pictures(clef_batch *b);
clef_status clef__batch_write_pictures(clef_batch *b, int32_t n, clef_error *err);
/** The host's memory for them. 0: there is too little. */
int  clef__batch_make_pictures(clef_batch *b);
void clef__batch_drop_pictures(clef_batch *b);

/* ---- batch.c ------------------------------------------------------------------------------------- */

/** clef_batch_create() where others need beside_bytes of the device's memory. */
clef_status clef__batch_create(clef_device *dev, clef_model *model, const clef_batch_opts *opts,
                               uint64_t beside_bytes, clef_batch **out, clef_error *err);
/** Makes, and frees, an input with room for n numbers. */
int clef__batch_make_input(batch_input *x, size_t n);
void clef__batch_free_input(batch_input *x);
/** Frees a sequence, and removes it from the list. */
void clef__batch_remove(clef_batch *b, batch_sequence *s);

#endif
