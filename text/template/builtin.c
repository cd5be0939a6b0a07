/* Templates that a user may name when a model has none of its own. They write the formats that the models'
 * cards describe; none looks at tools. */
#include <string.h>

#include "clef/template.h"

/* The first message's text, if it is the system's, and the messages after it. */
#define SYSTEM                                                                                               \
    "{%- if messages and messages[0].role == 'system' -%}"                                                   \
    "{%- set system = messages[0].content | trim -%}{%- set rest = messages[1:] -%}"                         \
    "{%- else -%}{%- set system = '' -%}{%- set rest = messages -%}{%- endif -%}"
#define ALTERNATES                                                                                           \
    "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}"                                                \
    "{{- raise_exception('roles must alternate: user, assistant, user, ..') -}}{%- endif -%}"

static const struct {
    const char *name, *source;
} builtins[] = {
    {"chatml", "{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' "
               "-}}{%- endfor -%}"
               "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"},
    {"llama2",
     SYSTEM "{%- for m in rest -%}" ALTERNATES "{%- if m.role == 'user' -%}"
            "{%- set text = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + m.content if system and loop.first "
            "else m.content -%}"
            "{{- bos_token + '[INST] ' + text | trim + ' [/INST]' -}}"
            "{%- else -%}{{- ' ' + m.content | trim + ' ' + eos_token -}}{%- endif -%}{%- endfor -%}"},
    {"llama3", "{{- bos_token -}}{%- for m in messages -%}"
               "{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + "
               "'<|eot_id|>' -}}{%- endfor -%}"
               "{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' "
               "-}}{%- endif -%}"},
    {"mistral",
     SYSTEM "{{- bos_token -}}{%- for m in rest -%}" ALTERNATES "{%- if m.role == 'user' -%}"
            "{%- set text = system + '\\n\\n' + m.content if system and loop.last else m.content -%}"
            "{{- '[INST] ' + text + ' [/INST]' -}}"
            "{%- else -%}{{- ' ' + m.content | trim + eos_token -}}{%- endif -%}{%- endfor -%}"},
    {"gemma",
     SYSTEM "{{- bos_token -}}{%- for m in rest -%}" ALTERNATES
            "{%- set role = 'model' if m.role == 'assistant' else m.role -%}"
            "{%- set text = system + '\\n\\n' + m.content if system and loop.first else m.content -%}"
            "{{- '<start_of_turn>' + role + '\\n' + text | trim + '<end_of_turn>\\n' -}}{%- endfor -%}"
            "{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}"},
    {"command-r",
     "{%- for m in messages -%}"
     "{%- set role = 'CHATBOT' if m.role == 'assistant' else m.role | upper -%}"
     "{{- '<|START_OF_TURN_TOKEN|><|' + role + '_TOKEN|>' + m.content | trim + '<|END_OF_TURN_TOKEN|>' -}}"
     "{%- endfor -%}"
     "{%- if add_generation_prompt -%}{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' -}}{%- endif -%}"},
    {"phi3",
     "{%- for m in messages -%}{{- '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' -}}{%- endfor -%}"
     "{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' -}}{%- endif -%}"},
    {"zephyr",
     "{%- for m in messages -%}{{- '<|' + m.role + '|>\\n' + m.content + eos_token + '\\n' -}}{%- endfor -%}"
     "{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' -}}{%- endif -%}"},
};
enum { N_BUILTINS = sizeof builtins / sizeof *builtins };

const char *clef_template_builtin(const char *name)
{
    for (int i = 0; i < N_BUILTINS; i++)
        if (strcmp(builtins[i].name, name) == 0)
            return builtins[i].source;
    return NULL;
}

const char *clef_template_builtin_name(int32_t i)
{
    return i >= 0 && i < N_BUILTINS ? builtins[i].name : NULL;
}
