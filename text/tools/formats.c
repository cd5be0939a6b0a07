/* The table of formats: their tags, and how a chat template shows which it uses. Sources: the models' own
 * chat templates and cards (docs/tools.md). */
#include "text/tools/formats.h"

#include <stdio.h>
#include <string.h>

#include "graph/fail.h"

/* U+FF5C and U+2581 are part of DeepSeek's tags. */
#define BAR "\xEF\xBD\x9C"
#define LOW "\xE2\x96\x81"
#define THINK .think = "<think>", .think_end = "</think>"

static const clef__tags tags[CLEF_N_TOOL_FORMATS] = {
    [CLEF_TOOLS_NONE] = {THINK},
    [CLEF_TOOLS_HERMES] = {THINK, .call = {"<tool_call>"}, .inner = {"</tool_call>"},
                           .read = clef__read_tagged_json},
    [CLEF_TOOLS_LLAMA3] = {THINK, .frame = {"<|python_tag|>"}, .read = clef__read_bare_json, .is_bare = 1},
    [CLEF_TOOLS_MISTRAL] = {.think = "[THINK]",
                            .think_end = "[/THINK]",
                            .call = {"[TOOL_CALLS]"},
                            .inner = {"[ARGS]", "[CALL_ID]"},
                            .read = clef__read_mistral,
                            .thinks_anywhere = 1},
    [CLEF_TOOLS_QWEN_CODER] = {THINK, .call = {"<tool_call>", "<function="}, .read = clef__read_parameters,
                               .inner = {"</function>", "<parameter=", "</parameter>", "</tool_call>"},
                               .tag_belongs = 2},
    [CLEF_TOOLS_GEMMA4] = {.think = "<|channel>thought",
                           .think_end = "<channel|>",
                           .call = {"<|tool_call>"},
                           .inner = {"<tool_call|>", "<|\"|>"},
                           .read = clef__read_gemma,
                           .thinks_anywhere = 1},
    [CLEF_TOOLS_HARMONY] = {.inner = {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>",
                                      "<|return|>", "<|constrain|>"}},
    [CLEF_TOOLS_GRANITE] = {THINK, .call = {"<|tool_call|>"}, .frame = {"<response>", "</response>"},
                            .inner = {"<|/tool_call|>"}, .read = clef__read_json_list},
    [CLEF_TOOLS_COMMAND_R] = {.think = "<|START_THINKING|>",
                              .think_end = "<|END_THINKING|>",
                              .call = {"<|START_ACTION|>", "Action:"},
                              .inner = {"<|END_ACTION|>"},
                              .frame = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>",
                                        "<|END_TEXT|>"},
                              .read = clef__read_json_list,
                              .thinks_anywhere = 1},
    [CLEF_TOOLS_DEEPSEEK] = {THINK, .call = {"<" BAR "tool" LOW "call" LOW "begin" BAR ">"},
                             .frame = {"<" BAR "tool" LOW "calls" LOW "begin" BAR ">",
                                       "<" BAR "tool" LOW "calls" LOW "end" BAR ">"},
                             .inner = {"<" BAR "tool" LOW "sep" BAR ">",
                                       "<" BAR "tool" LOW "call" LOW "end" BAR ">"},
                             .read = clef__read_deepseek},
    [CLEF_TOOLS_PHI4] = {THINK, .call = {"<|tool_call|>"}, .inner = {"<|/tool_call|>"},
                         .read = clef__read_json_list},
    [CLEF_TOOLS_JSON] = {THINK, .read = clef__read_wrapped_json, .is_bare = 1},
};

const clef__tags *clef__tool_tags(clef_tool_format format)
{
    return &tags[format];
}

/* 1 if one of the tags in a list, which ends with NULL, has this text in it. */
static int one_has(const char *const *list, const char *text, size_t n)
{
    for (; *list; list++)
        for (const char *at = *list; strlen(at) >= n; at++)
            if (!memcmp(at, text, n))
                return 1;
    return 0;
}

int32_t clef_tool_format_has_tag(clef_tool_format format, const char *text, size_t n_bytes)
{
    if ((unsigned)format >= CLEF_N_TOOL_FORMATS || !n_bytes)
        return 0;
    const clef__tags *t = &tags[format];
    const char *const think[] = {t->think, t->think ? t->think_end : NULL, NULL};
    return one_has(think, text, n_bytes) || one_has(t->call, text, n_bytes) ||
           one_has(t->frame, text, n_bytes) || one_has(t->inner, text, n_bytes);
}

clef_thought clef_tool_format_thought(clef_tool_format format)
{
    const clef__tags *t = &tags[(unsigned)format < CLEF_N_TOOL_FORMATS ? format : CLEF_TOOLS_NONE];
    if (format == CLEF_TOOLS_HARMONY)
        return (clef_thought){.open = "<|channel|>analysis<|message|>",
                              .close = "<|end|>",
                              .ending = "<|end|><|start|>assistant<|channel|>final<|message|>",
                              .anywhere = 1};
    return (clef_thought){.open = t->think, .close = t->think_end, .anywhere = t->thinks_anywhere};
}

/* ---- names ------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *example;
} texts[] = {
#define CLEF_X(id, name, example) {name, example},
    CLEF_TOOL_FORMATS(CLEF_X)
#undef CLEF_X
};

const char *clef_tool_format_name(clef_tool_format format)
{
    return (unsigned)format < CLEF_N_TOOL_FORMATS ? texts[format].name : "?";
}

const char *clef_tool_format_example(clef_tool_format format)
{
    return (unsigned)format < CLEF_N_TOOL_FORMATS ? texts[format].example : "?";
}

clef_status clef_tool_format_find(const char *name, clef_tool_format *out, clef_error *err)
{
    char names[256];
    int n = 0;
    for (int i = 0; i < CLEF_N_TOOL_FORMATS; i++) {
        if (strcmp(texts[i].name, name) == 0) {
            *out = (clef_tool_format)i;
            return CLEF_OK;
        }
        n += snprintf(names + n, sizeof names - (size_t)n, "%s%s", i ? ", " : "", texts[i].name);
    }
    return clef__fail(err, CLEF_E_NOT_FOUND, "tool format '%.40s': expected one of %s", name, names);
}

/* ---- templates -------------------------------------------------------------------------------- */

/* A template writes a format if it has all of `has` and not `lacks`. The first line that fits counts. */
static const struct {
    clef_tool_format format;
    const char *has[3], *lacks;
} marks[] = {
    {CLEF_TOOLS_HARMONY, {"<|channel|>", "<|message|>", "<|start|>"}, NULL},
    {CLEF_TOOLS_GEMMA4, {"<|tool_call>call:"}, NULL},
    {CLEF_TOOLS_DEEPSEEK, {"tool" LOW "call" LOW "begin"}, NULL},
    {CLEF_TOOLS_MISTRAL, {"[TOOL_CALLS]"}, NULL},
    {CLEF_TOOLS_COMMAND_R, {"<|START_ACTION|>"}, NULL},
    {CLEF_TOOLS_COMMAND_R, {"Action:", "tool_name"}, NULL},
    {CLEF_TOOLS_QWEN_CODER, {"<tool_call>", "<function=", "<parameter="}, NULL},
    {CLEF_TOOLS_PHI4, {"<|tool|>", "<|/tool|>"}, NULL},
    {CLEF_TOOLS_PHI4, {"<|tool_call|>", "<|/tool_call|>"}, NULL},
    {CLEF_TOOLS_GRANITE, {"<|tool_call|>"}, NULL},
    {CLEF_TOOLS_HERMES, {"<tool_call>", "</tool_call>"}, "<arg_key>"},
    {CLEF_TOOLS_LLAMA3, {"<|python_tag|>", "\"parameters\""}, "<function="},
    {CLEF_TOOLS_LLAMA3, {"\"name\": function name, \"parameters\""}, "<function="},
};

static int has(const char *text, size_t n_bytes, const char *what)
{
    size_t searched = 0, at;
    return clef__find((clef__slice){text, n_bytes}, what, &searched, &at);
}

clef_tool_format clef_tool_format_of_template(const char *text, size_t n_bytes)
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        int fits = !marks[i].lacks || !has(text, n_bytes, marks[i].lacks);
        for (int j = 0; j < 3 && marks[i].has[j]; j++)
            fits = fits && has(text, n_bytes, marks[i].has[j]);
        if (fits)
            return marks[i].format;
    }
    return CLEF_TOOLS_NONE;
}
