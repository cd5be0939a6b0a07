/* The calls of one message: a list, and the ways in which families write a call. */
#ifndef CLEF_MODEL_CALLS_H
#define CLEF_MODEL_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "clef/tools.h"
#include "text/tools/json_text.h"

typedef struct clef__call {
    char *id, *name, *arguments; /* id: NULL, or the model's own */
} clef__call;

typedef struct clef__calls {
    clef__call *at;
    int32_t     n, cap;
} clef__calls;
/** Removes the calls from number n on. */
void clef__calls_cut(clef__calls *calls, int32_t n);

/** What a block of text turned out to be. */
typedef enum clef__found {
    CLEF__MORE, /* its end was not read yet */
    CLEF__CALLS,
    CLEF__TEXT /* no call */
} clef__found;

/** A block of text that may be calls: what follows a tag. A reader tries it again whenever it has grown. */
typedef struct clef__block {
    clef__slice text;       /* from behind the tag on */
    clef__slice tools;      /* OpenAI's "tools", checked; empty: none */
    int32_t     at_end;     /* nothing will follow */
    clef__found found;      /* set by the reader of the block, with: */
    size_t      n_used;     /* CLEF__CALLS: the bytes that the calls take */
    clef__calls *calls;     /* where they are appended */
    char        *content;   /* CLEF__CALLS: NULL, or text that the block stands for, malloced */
    /* How far it got, zero at first. */
    clef__json_scan scan;
    size_t          searched;
} clef__block;

/** Readers of blocks. Each sets found (and n_used), and appends calls only with CLEF__CALLS.
 *  CLEF_E_NOMEM. */
typedef clef_status clef__block_reader(clef__block *block, clef_error *err);
clef__block_reader clef__read_tagged_json, /* {..}</tool_call> */
    clef__read_bare_json,                  /* {..} */
    clef__read_wrapped_json,               /* {"tool_calls": [{..}]}, or {"response": "text"} */
    clef__read_json_list,                  /* [{..}, {..}], then a closing tag of one of the families */
    clef__read_mistral,                    /* [{..}] or f[CALL_ID]id[ARGS]{..} */
    clef__read_deepseek,                   /* f<sep>{..}<end>, or function<sep>f, and the object in ```json */
    clef__read_parameters,                 /* <function=f><parameter=x>1</parameter></function></tool_call> */
    clef__read_gemma;                      /* call:f{x:1,y:<|"|>text<|"|>}<tool_call|> */

/** 1 when the tools have a function of this name, or there are none. */
int clef__tool_is_known(clef__slice tools, const char *name);
/** The schema of a function's parameter, and of all of them, as text; 0 when it is not known. */
int clef__tool_parameter(clef__slice tools, const char *function, const char *parameter, clef__slice *all,
                         clef__slice *schema);
/** How Qwen3-Coder's form reads a parameter's value: 1 as a text, 0 as JSON, -1 as JSON where it is JSON but
 *  no string, and as a text else. */
int clef__tool_takes_text(clef__slice tools, const char *function, const char *parameter);

/** Appends a call written as an object {"name": .., "arguments": {..}}. "tool_name", "parameters", "id",
 *  "tool_call_id" and "function" are known, too. *is_call is 0 when it is none. CLEF_E_NOMEM. */
clef_status clef__call_from_object(clef__slice object, clef__calls *calls, int *is_call, clef_error *err);
/** Appends a call of this name whose arguments are this text: of an object, or of a string with an object in
 *  it. *is_call is 0 when it is neither. CLEF_E_NOMEM. */
clef_status clef__call_from_arguments(clef__slice name, clef__slice id, clef__slice arguments,
                                      clef__calls *calls, int *is_call, clef_error *err);

/** Where `what` is in a text that grows; looks no byte over twice. Returns 0 while it is not there, 1 when
 *  it begins at *at. */
int clef__find(clef__slice text, const char *what, size_t *searched, size_t *at);
/** 1 when the text from `at` on begins with `what`; 2 when it may yet, as it ends within it. */
int clef__begins(clef__slice text, size_t at, const char *what);

/** Text that is built. After a failed allocation `failed` is 1 and appending does nothing. */
typedef struct clef__text {
    char  *at;
    size_t n, cap;
    int    failed;
} clef__text;
void clef__text_add(clef__text *text, const char *bytes, size_t n);
void clef__text_free(clef__text *text);
/** As a JSON string, with its quotation marks. */
void clef__text_add_string(clef__text *text, const char *bytes, size_t n);

#endif
