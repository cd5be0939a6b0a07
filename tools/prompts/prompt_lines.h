/* Reads a file of prompts: one a line, or a JSON object a line. */
#ifndef CLEF_TOOLS_PROMPT_LINES_H
#define CLEF_TOOLS_PROMPT_LINES_H

#include "clef/generate.h"
#include "tools/cli/cli.h"

/** A prompt and how to continue it. */
typedef struct prompt_line {
    int32_t           number;    /* of the line in the file, from 1 */
    char             *text;      /* UTF-8 */
    size_t            n_bytes;
    char             *id;        /* the JSON text of "id"; NULL for none */
    int32_t           n_predict; /* -1: until the model ends the text or the context is full */
    clef_sampler_opts sampling;
    cli_list          stops;     /* stop strings, of the flags or of own_stops */
    char            **own_stops; /* NULL: none */
    int32_t           n_own_stops;
    uint64_t          salt;
    char             *lora; /* the name of an adapter, "" for none; NULL: the line does not say */
} prompt_line;

typedef struct prompt_lines {
    const char  *path; /* for messages */
    prompt_line *items;
    int32_t      n;
} prompt_lines;

/** Reads all lines of `path` ("-": stdin). They are JSON objects if the name ends in .jsonl or the first line
 *  begins with '{'; else each line is a prompt, and an empty one is an error. What a line does not say is as
 *  in `defaults`. If `own_seeds` is set, line i (from 0) without a seed gets that of the defaults plus i.
 *  Returns CLI_GO_ON, or CLI_FAILED after a message that names the line. Free with prompt_lines_finish() in
 *  either case. */
int  prompt_lines_read(const char *path, const prompt_line *defaults, int32_t own_seeds, prompt_lines *out);
void prompt_lines_finish(prompt_lines *lines);
/** 1 when the name ends in .jsonl. */
int prompt_lines_is_jsonl(const char *path);

#endif
