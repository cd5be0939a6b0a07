/* Writes predictions as text and as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/scaling.h"

static clef_status check(FILE *to, clef_error *err)
{
    return fflush(to) == 0 && !ferror(to)
               ? CLEF_OK
               : cli_error(err, CLEF_E_IO, "plan: cannot write: %s", strerror(errno));
}

static double seconds_of(const cli_step_cost *c)
{
    return c->compute + c->network;
}

static double memory_of(const cli_layout *l)
{
    return (double)l->weight_bytes + (double)l->state_bytes + (double)l->arena_bytes;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void write_link(FILE *to, const char *what, const cli_link *l)
{
    fprintf(to, "%s %.3g GB/s, %.3g us (further messages %.3g us)\n", what, l->bytes_per_second / 1e9,
            l->latency * 1e6, l->message * 1e6);
}

static void write_machine(const cli_scaling *s, FILE *to)
{
    const cli_scaling_machine *m = &s->machine;
    const cli_device_profile *d = &m->device;
    char bytes[24];
    fprintf(to, "%s: %s of weights, context %" PRId32 ", prompt of %" PRId32 " tokens\n", s->title,
            cli_bytes_text((uint64_t)s->weight_bytes, bytes), s->n_context, s->n_prompt);
    fprintf(to, "%" PRId32 " rank%s on %" PRId32 " node%s, sums as %s\n", m->n_ranks,
            m->n_ranks == 1 ? "" : "s", m->n_nodes, m->n_nodes == 1 ? "" : "s", cli_wire_names[m->wire]);
    fprintf(to, "a rank:        %s: %.4g GB/s, %.4g GFLOP/s, %.3g us a launch, %.4g GB\n", d->name,
            d->read_gb_s, d->gflop_s, d->launch_us, d->memory_gb);
    if (m->n_ranks > m->n_nodes)
        write_link(to, "within a node:", &m->within);
    if (m->n_nodes > 1)
        write_link(to, "between nodes:", &m->between);
}

static void write_row(const cli_layout *l, FILE *to)
{
    const double decode = seconds_of(&l->decode), prefill = seconds_of(&l->prefill);
    fprintf(to,
            "%5" PRId32 " %4" PRId32
            " %9.3g %9.3g %9.3g %9.3g %10.2f %8.1f %6.0f%% %10.1f %6.0f%% %9.1f %s\n",
            l->width, l->stages, (double)l->weight_bytes / 1e9, (double)l->state_bytes / 1e9,
            (double)l->arena_bytes / 1e9, memory_of(l) / 1e9, decode * 1e3, 1 / decode,
            100 * l->decode.network / decode, prefill * 1e3, 100 * l->prefill.network / prefill,
            l->decode.sent_bytes / 1e3, l->fits ? "" : " does not fit");
}

static void write_best(const cli_scaling *s, const char *what, int32_t i, FILE *to)
{
    if (i < 0) {
        fprintf(to, "best for %s: no layout fits\n", what);
        return;
    }
    const cli_layout *l = &s->layouts[i];
    fprintf(to, "best for %s: --tp %" PRId32 " --pp %" PRId32 "\n", what, l->width, l->stages);
}

clef_status cli_scaling_text(void *user, FILE *to, clef_error *err)
{
    const cli_scaling *s = user;
    int32_t n_rows = 0;
    write_machine(s, to);
    fprintf(to, "\n%10s %39s %27s %18s %9s\n", "layout", "GB of a rank, at most", "a token", "the prompt",
            "a token");
    fprintf(to, "%5s %4s %9s %9s %9s %9s %10s %8s %7s %10s %7s %9s\n", "tp", "pp", "weights", "KV cache",
            "working", "together", "ms", "tokens/s", "network", "ms", "network", "kB sent");
    for (int32_t i = 0; i < s->n_layouts; i++)
        if (!s->layouts[i].refused[0]) {
            write_row(&s->layouts[i], to);
            n_rows++;
        }
    for (int32_t i = 0; i < s->n_layouts; i++)
        if (s->layouts[i].refused[0])
            fprintf(to, "%5" PRId32 " %4" PRId32 " refused: %s\n", s->layouts[i].width, s->layouts[i].stages,
                    s->layouts[i].refused);
    fputc('\n', to);
    if (n_rows) {
        write_best(s, "decode", s->best_decode, to);
        write_best(s, "prefill", s->best_prefill, to);
    }
    return check(to, err);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_cost(FILE *to, int32_t *n, const char *key, const cli_step_cost *c)
{
    int32_t k = 0;
    cli_json_member(to, n, key);
    fputc('{', to);
    cli_json_member_number(to, &k, "seconds", seconds_of(c));
    cli_json_member_number(to, &k, "compute_seconds", c->compute);
    cli_json_member_number(to, &k, "network_seconds", c->network);
    cli_json_member_number(to, &k, "sent_bytes", c->sent_bytes);
    fputc('}', to);
}

static void write_layout(FILE *to, const cli_layout *l)
{
    int32_t n = 0;
    fputs("{", to);
    cli_json_member_number(to, &n, "tp", l->width);
    cli_json_member_number(to, &n, "pp", l->stages);
    if (l->refused[0]) {
        cli_json_member_text(to, &n, "refused", l->refused);
    } else {
        cli_json_member_number(to, &n, "weight_bytes", (double)l->weight_bytes);
        cli_json_member_number(to, &n, "state_bytes", (double)l->state_bytes);
        cli_json_member_number(to, &n, "arena_bytes", (double)l->arena_bytes);
        cli_json_member_number(to, &n, "fits", l->fits);
        cli_json_member_number(to, &n, "exchanges", l->n_exchanges);
        write_cost(to, &n, "decode", &l->decode);
        write_cost(to, &n, "prefill", &l->prefill);
    }
    fputs("}", to);
}

clef_status cli_scaling_json(void *user, FILE *to, clef_error *err)
{
    const cli_scaling *s = user;
    int32_t n = 0;
    fputs("{", to);
    cli_json_member_text(to, &n, "model", s->title);
    cli_json_member_number(to, &n, "weight_bytes", s->weight_bytes);
    cli_json_member_number(to, &n, "context", s->n_context);
    cli_json_member_number(to, &n, "prompt", s->n_prompt);
    cli_json_member_number(to, &n, "ranks", s->machine.n_ranks);
    cli_json_member_number(to, &n, "nodes", s->machine.n_nodes);
    cli_json_member_text(to, &n, "device", s->machine.device.name);
    cli_json_member_number(to, &n, "best_decode", s->best_decode);
    cli_json_member_number(to, &n, "best_prefill", s->best_prefill);
    cli_json_member(to, &n, "layouts");
    fputs("[\n", to);
    for (int32_t i = 0; i < s->n_layouts; i++) {
        fputs(i ? ",\n  " : "  ", to);
        write_layout(to, &s->layouts[i]);
    }
    fputs("]}\n", to);
    return check(to, err);
}
