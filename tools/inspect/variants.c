#include "tools/inspect/variants.h"

#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/json.h"

static const char *const state_names[] = {"chosen", "slower", "failed", "untimed", "unfit", "by_order"};

clef_status cli_variants_print(clef_device *device, clef_error *err)
{
    clef_variant_info *list;
    int32_t n;
    const clef_status s = clef_variants_list(device, &list, &n, err);
    for (int32_t i = 0; i < n && !s; i++) {
        const clef_variant_info *v = &list[i];
        const int again = i && strcmp(v->op, v[-1].op) == 0 && strcmp(v->variant, v[-1].variant) == 0;
        if (!again)
            printf("     %s %s%s", v->op, v->variant, v->key[0] ? "\n" : ": ");
        if (v->key[0])
            printf("       %-52s %s%s%s%s\n", v->key, v->why, v->values[0] ? " (" : "", v->values,
                   v->values[0] ? ")" : "");
        else
            printf("%s\n", v->why);
    }
    clef_variants_free(s ? NULL : list);
    return s;
}

clef_status cli_variants_print_json(clef_device *device, clef_error *err)
{
    clef_variant_info *list;
    int32_t n;
    const clef_status s = clef_variants_list(device, &list, &n, err);
    putchar('[');
    for (int32_t i = 0; i < n && !s; i++) {
        const clef_variant_info *v = &list[i];
        int32_t members = 0;
        fputs(i ? ",\n  {" : "{", stdout);
        cli_json_member_text(stdout, &members, "op", v->op);
        cli_json_member_text(stdout, &members, "variant", v->variant);
        cli_json_member_text(stdout, &members, "state", state_names[v->state]);
        cli_json_member_text(stdout, &members, "why", v->why);
        if (v->key[0]) {
            cli_json_member_text(stdout, &members, "key", v->key);
            cli_json_member_text(stdout, &members, "values", v->values);
            cli_json_member_number(stdout, &members, "us", v->us);
            cli_json_member_number(stdout, &members, "best_us", v->best_us);
            cli_json_member_number(stdout, &members, "error", v->error);
        }
        putchar('}');
    }
    putchar(']');
    clef_variants_free(s ? NULL : list);
    return s;
}
