/* Regexes and the other patterns that normalizers, pre-tokenizers and decoders look for. */
#ifndef CLEF_MODEL_TOKENIZER_REGEX_H
#define CLEF_MODEL_TOKENIZER_REGEX_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

/** A compiled pattern in the dialect of tokenizer.json (Oniguruma, Ruby syntax), run by PCRE2 with Unicode
 *  classes. */
typedef struct clef__regex clef__regex;

/** The matcher's memory for one encoding, not shared between threads. Start from a zeroed struct. */
typedef struct clef__regex_run {
    void *data, *context, *stack;
    int   newer; /* the text has characters newer than PCRE2's Unicode (model/tokenizer/unicode.h) */
} clef__regex_run;

/** CLEF_E_FORMAT: not a regex (the message names the place). CLEF_E_UNSUPPORTED: a construct that the two
 *  engines read differently. */
clef_status clef__regex_create(const char *pattern, size_t n, clef__regex **out, clef_error *err);
void        clef__regex_destroy(clef__regex *regex);
/** The first match at or after `from` in valid UTF-8; *found is 0 when there is none. CLEF_E_LIMIT,
 *  CLEF_E_NOMEM. */
clef_status clef__regex_find(const clef__regex *regex, clef__regex_run *run, const char *text, size_t n,
                             size_t from, size_t *start, size_t *end, int *found, clef_error *err);
void        clef__regex_run_finish(clef__regex_run *run);

/** One of three: a regex, a character of a class, or (both NULL) a string of n_text > 0 bytes. */
typedef struct clef__pattern {
    clef__regex *regex;
    int (*is)(uint32_t code);
    const char *text;
    size_t      n_text;
} clef__pattern;

/** The place in a text after some matches. Zero means the start. */
typedef struct clef__pattern_walk {
    size_t at, last_end;
    int    any;
} clef__pattern_walk;

/** Finds the next match as find_iter() of Rust's regexes does: an empty match right after a match is left
 *  out. */
clef_status clef__pattern_next(const clef__pattern *pattern, clef__regex_run *run, const char *text, size_t n,
                               clef__pattern_walk *walk, size_t *start, size_t *end, int *found,
                               clef_error *err);

#endif
