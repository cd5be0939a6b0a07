/* What was said in a sound, as files. */
#ifndef CLEF_TOOLS_TRANSCRIPT_H
#define CLEF_TOOLS_TRANSCRIPT_H

#include <stdio.h>

#include "clef/speech.h"

typedef enum cli_transcript_form {
    CLI_SAID_TEXT,
    CLI_SAID_SRT,
    CLI_SAID_VTT,
    CLI_SAID_JSON
} cli_transcript_form;

/** Writes "01:02:03.004", with this point. */
void cli_time_text(double seconds, char point, char out[32]);
/** A text without the spaces before and after it; its length in *n. */
const char *cli_trimmed(const char *text, size_t *n);
/** Whether a text begins with the arrow between the times of a cue. In a text it is written as "->",
 *  as OpenAI's Whisper does. */
int cli_is_cue_arrow(const char *text, size_t n);
/** Writes subtitles (SubRip, WebVTT), the text alone, or JSON in the form of OpenAI's verbose_json. */
void cli_transcript_write(const clef_transcript *t, cli_transcript_form form, FILE *to);

#endif
