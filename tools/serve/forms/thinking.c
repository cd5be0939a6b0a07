/* What requests say of reasoning: whether there is to be some, how much, and how long it may be. */
#include <string.h>

#include "tools/serve/forms/form.h"

/* A number of tokens, or null. */
static int read_budget(serve_task *t, const json_t *value, const char *path)
{
    int64_t n;
    if (!value || json_is_null(value))
        return 1;
    if (!serve_integer(value, &n))
        return serve_wrong(t->r, path, value, "an integer");
    if (n < 0 || n > INT32_MAX)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, path, "%s: expected 0 to %d, got %lld", path,
                          INT32_MAX, (long long)n);
    t->p.thinking_budget = (int32_t)n;
    return 1;
}

/* As Anthropic has it: {"type": enabled, adaptive, between_tools (here the same) or disabled,
 * "budget_tokens", "display"}. */
int serve_read_thinking(serve_task *t)
{
    const json_t *thinking = t->p.thinking, *display = json_object_get(thinking, "display");
    const char *shown = json_string_value(display),
               *type = json_string_value(json_object_get(thinking, "type"));
    if (!type)
        return serve_wrong(t->r, "thinking", thinking,
                           "{\"type\": \"enabled\", \"adaptive\", \"between_tools\" or \"disabled\"}");
    t->p.enable_thinking = strcmp(type, "disabled") != 0;
    if (t->p.enable_thinking && strcmp(type, "enabled") != 0 && strcmp(type, "adaptive") != 0 &&
        strcmp(type, "between_tools") != 0)
        return serve_fail(&t->r->error, SERVE_E_INVALID_VALUE, "thinking.type",
                          "thinking.type: expected enabled, adaptive, between_tools or disabled, got '%.40s'",
                          type);
    t->p.hides_thinking = shown && !strcmp(shown, "omitted");
    if (display && !json_is_null(display) && !t->p.hides_thinking && (!shown || strcmp(shown, "summarized")))
        return serve_wrong(t->r, "thinking.display", display, "\"summarized\" or \"omitted\"");
    return read_budget(t, json_object_get(thinking, "budget_tokens"), "thinking.budget_tokens");
}

/* As OpenAI and OpenRouter have it: {"effort", "max_tokens", "enabled", "exclude"}. */
int serve_read_reasoning(serve_task *t)
{
    const json_t *from = t->p.reasoning, *effort = json_object_get(from, "effort"),
                 *enabled = json_object_get(from, "enabled"), *exclude = json_object_get(from, "exclude");
    if (!json_is_object(from))
        return serve_wrong(t->r, "reasoning", from, "an object");
    if (effort && !json_is_null(effort) && !serve_is_plain(effort))
        return serve_wrong(t->r, "reasoning.effort", effort, "a string");
    if (enabled && !json_is_null(enabled) && !json_is_boolean(enabled))
        return serve_wrong(t->r, "reasoning.enabled", enabled, "true or false");
    if (exclude && !json_is_null(exclude) && !json_is_false(exclude))
        return serve_fail(&t->r->error, SERVE_E_UNSUPPORTED, "reasoning.exclude",
                          "reasoning.exclude: not supported: a reply has its reasoning");
    if (json_is_string(effort))
        t->p.reasoning_effort = json_string_value(effort);
    if (json_is_boolean(enabled))
        t->p.enable_thinking = json_is_true(enabled);
    return read_budget(t, json_object_get(from, "max_tokens"), "reasoning.max_tokens");
}

int serve_chat_read(serve_task *t)
{
    return serve_custom_read(t) && (!t->p.thinking || serve_read_thinking(t)) &&
           (!t->p.reasoning || serve_read_reasoning(t));
}
