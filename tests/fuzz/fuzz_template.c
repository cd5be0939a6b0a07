/* Fuzzes chat templates: a source up to a 0 byte, then a message's text. What is rendered twice is the same,
 * and its parts follow each other to the whole. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MOST_TEXT = 200 };

static void check_parts(const clef_rendered *text)
{
    size_t at = 0;
    for (int32_t i = 0; i < text->n_parts; i++) {
        if (text->parts[i].begin != at || text->parts[i].end <= at)
            abort();
        at = text->parts[i].end;
    }
    if (at != text->n_bytes || text->text[at] != '\0')
        abort();
}

/* A conversation with a text of plain characters. */
static size_t write_talk(char *out, size_t room, const char *text, size_t n)
{
    char plain[MOST_TEXT + 1] = "";
    for (size_t i = 0; i < n && i < MOST_TEXT; i++)
        plain[i] = text[i] >= ' ' && text[i] < 127 && text[i] != '"' && text[i] != '\\' ? text[i] : '_';
    return (size_t)snprintf(out, room,
                            "[{\"role\":\"user\",\"content\":\"%s\",\"n\":[3,1.5,null,true,{\"a\":-7}]},"
                            "{\"role\":\"assistant\",\"content\":\"h\\u00e9llo \\u0130 \\ud83d\\ude00\"}]",
                            plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const clef_template_arg args[] = {{"l", "[3, 1, 2]"}, {"d", "{\"b\": 1, \"a\": {\"c\": [1, 2]}}"}};
    const char *source = (const char *)data;
    const char *end = n_bytes ? memchr(source, 0, n_bytes) : NULL;
    const size_t n_source = end ? (size_t)(end - source) : n_bytes;
    char talk[MOST_TEXT + 300];
    clef_template *tpl = NULL;
    clef_rendered one = {0}, two = {0};
    if (clef_template_parse(n_source ? source : "", n_source, "fuzz", &tpl, NULL))
        return 0;
    const clef_template_opts opts = {
        .messages = talk,
        .messages_bytes = write_talk(talk, sizeof talk, end ? end + 1 : "", end ? n_bytes - n_source - 1 : 0),
        .args = args,
        .n_args = 2,
        .date = "2026-01-02"};
    const clef_status first = clef_template_render(tpl, &opts, &one, NULL),
                      second = clef_template_render(tpl, &opts, &two, NULL);
    if (first != second || one.n_bytes != two.n_bytes)
        abort();
    if (!first) {
        check_parts(&one);
        if (memcmp(one.text, two.text, one.n_bytes) != 0)
            abort();
    }
    clef_rendered_finish(&one);
    clef_rendered_finish(&two);
    clef_template_destroy(tpl);
    return 0;
}
