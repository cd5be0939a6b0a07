/* Weights that rank 0 sends while a plan is made, so that the other ranks need no file
 * (clef_ranks_opts.sends_weights).
 *
 * A rank asks for the bytes of its part of a weight when its plan needs them. Rank 0 makes its own part of
 * the plan first. Then it answers the others in turn, one question of each, until each has said that its plan
 * is made. Bytes cross in pieces, each with a checksum. */
#ifndef CLEF_RUNTIME_SENT_H
#define CLEF_RUNTIME_SENT_H

#include "graph/value.h"
#include "runtime/plan/plan.h"
#include "runtime/ranks/ranks.h"

/** A checksum of bytes that cross between ranks. It finds damage, not attacks. */
uint64_t clef__sent_checksum(const void *data, size_t n_bytes);

/* What crosses. Each struct ends with the checksum of what is before it. */
enum { CLEF__SENT_PIECE = 4 << 20 };
typedef struct clef__sent_question {
    int32_t  is_last; /* 1: this rank's plan is made, or has failed; the other fields are 0 */
    int32_t  dtype;
    uint64_t whole_bytes, offset, n_runs, run_bytes, stride; /* a clef_weight_part */
    char     name[CLEF_NAME_BYTES];                          /* of the whole weight */
    uint64_t checksum;
} clef__sent_question;
/** Before the bytes; after a status that is not CLEF_OK there are none. Each piece of at most
 *  CLEF__SENT_PIECE bytes comes after its checksum, a uint64_t. */
typedef struct clef__sent_answer {
    int32_t  status, unused;
    char     text[504];
    uint64_t checksum;
} clef__sent_answer;

/* ---- on the ranks that ask: weights_ask.c ------------------------------------------------------ */

typedef struct clef__sent clef__sent;

/** clef_plan_opts.weights of a plan whose weights rank 0 sends; weights_user is a clef__sent. It marks the
 *  plan, and is not called. */
const void *clef__sent_weight(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes);
int         clef__sent_serves(const clef_plan *plan);

/** CLEF_E_NOMEM. */
clef_status clef__sent_begin(clef_ranks *ranks, clef__sent **out, clef_error *err);
/** Tells rank 0 that this rank needs no more. Accepts NULL, and then says the same. */
void        clef__sent_end(clef_ranks *ranks, clef__sent *sent);
/** Asks for a weight that will be needed soon, so that it is on its way meanwhile. */
void        clef__sent_ask(const clef_plan *plan, const clef_value *v);
/** Puts the bytes of this rank's part of a weight into plan->gathered. CLEF_E_NOMEM; CLEF_E_FORMAT: a
 *  checksum is wrong; or what rank 0 answered. */
clef_status clef__sent_fetch(const clef_plan *plan, const clef_value *v, clef_error *err);

/* ---- on rank 0: weights_send.c ----------------------------------------------------------------- */

/** Answers the others until each has said that it needs no more. own: what rank 0's part of the plan came to;
 *  if it is not CLEF_OK all answers refuse. */
clef_status clef__send_weights(clef_ranks *ranks, const clef_plan_opts *opts, clef_status own,
                               clef_error *err);

#endif
