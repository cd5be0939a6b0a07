/* Writes the surprise of tokens as text, JSON, a page and a curve. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/cli/terminal.h"
#include "tools/inspect/curve.h"
#include "tools/inspect/logits.h"
#include "tools/inspect/page.h"

static double surprise_bits(double nats)
{
    return nats / log(2.0);
}

/* Writes a token on one line, with its ends visible. */
static void write_token(FILE *to, const cli_forward *f, int32_t id)
{
    char *text = cli_forward_token(f, id);
    cli_json_string(to, text ? text : "?");
    free(text);
}

/* From green to red over ten bits; purple for NaN. */
static const char *colour_of(double surprise)
{
    static const char *const steps[] = {"\033[38;5;34m",  "\033[38;5;70m",  "\033[38;5;106m",
                                        "\033[38;5;142m", "\033[38;5;178m", "\033[38;5;172m",
                                        "\033[38;5;166m", "\033[38;5;160m", "\033[38;5;124m"};
    const int n = (int)(sizeof steps / sizeof *steps), k = surprise >= n  ? n - 1
                                                           : surprise > 0 ? (int)surprise
                                                                          : 0;
    return isnan(surprise) ? "\033[38;5;201m" : steps[k];
}

static void write_surprise(FILE *to, int32_t at, const logits_place *p, int colour)
{
    if (isnan(p->nats))
        fprintf(to, "%5" PRId32 " %8s %6s %6s  ", at, "NaN", "NaN", "NaN");
    else
        fprintf(to, "%5" PRId32 " %8.4f %6.2f %6" PRId32 "  ", at, exp(-p->nats), surprise_bits(p->nats),
                p->rank);
    fputs(colour ? colour_of(surprise_bits(p->nats)) : "", to);
}

clef_status cli_logits_text(void *user, FILE *to, clef_error *err)
{
    const logits_result *r = user;
    const int colour = to == stdout && cli_terminal_stdout() && !getenv("NO_COLOR");
    (void)err;
    fprintf(to, "%5s %8s %6s %6s  token, and what was expected\n", "at", "p", "bits", "rank");
    for (int32_t i = 0; i < r->n; i++) {
        const logits_place *p = &r->places[i];
        if (p->rank)
            write_surprise(to, i, p, colour);
        else
            fprintf(to, "%5" PRId32 " %8s %6s %6s  ", i, "", "", "");
        write_token(to, r->f, p->id);
        fputs(colour && p->rank ? "\033[0m" : "", to);
        for (int32_t k = 0; k < r->n_top && p->rank; k++) {
            fputs(k ? ", " : "   ", to);
            write_token(to, r->f, p->top[k].id);
            fprintf(to, isnan(p->top[k].p) ? " NaN" : " %.3f", (double)p->top[k].p);
        }
        fputc('\n', to);
    }
    if (isnan(r->nats))
        fputs("perplexity NaN, NaN", to);
    else
        fprintf(to, "perplexity %.4f, %.4f", exp(r->nats), surprise_bits(r->nats));
    fprintf(to, " bits a token, %" PRId32 " tokens scored\n", r->n_scored);
    return CLEF_OK;
}

static void write_place(FILE *to, const logits_result *r, const logits_place *p)
{
    int32_t n = 0;
    fputc('{', to);
    cli_json_member_number(to, &n, "id", p->id);
    cli_json_member(to, &n, "token");
    write_token(to, r->f, p->id);
    if (p->rank) {
        cli_json_member_number(to, &n, "p", exp(-p->nats));
        cli_json_member_number(to, &n, "bits", surprise_bits(p->nats));
        cli_json_member_number(to, &n, "rank", isnan(p->nats) ? (double)NAN : p->rank);
        cli_json_member(to, &n, "top");
        for (int32_t k = 0; k < r->n_top; k++) {
            int32_t m = 0;
            fputs(k ? ", {" : "[{", to);
            cli_json_member_number(to, &m, "id", p->top[k].id);
            cli_json_member(to, &m, "token");
            write_token(to, r->f, p->top[k].id);
            cli_json_member_number(to, &m, "p", (double)p->top[k].p);
            fputc('}', to);
        }
        fputc(']', to);
    }
    fputc('}', to);
}

clef_status cli_logits_json(void *user, FILE *to, clef_error *err)
{
    const logits_result *r = user;
    int32_t n = 0;
    (void)err;
    fputc('{', to);
    cli_json_member_text(to, &n, "format", "clef-logits");
    cli_json_member_number(to, &n, "version", 1);
    cli_json_member_text(to, &n, "model", r->title);
    cli_json_member_number(to, &n, "perplexity", exp(r->nats));
    cli_json_member_number(to, &n, "nats_per_token", r->nats);
    cli_json_member_number(to, &n, "tokens_scored", r->n_scored);
    cli_json_member(to, &n, "tokens");
    for (int32_t i = 0; i < r->n; i++) {
        fputs(i ? ",\n  " : "[\n  ", to);
        write_place(to, r, &r->places[i]);
    }
    fputs("]}\n", to);
    return CLEF_OK;
}

clef_status cli_logits_html(void *user, FILE *to, clef_error *err)
{
    return cli_page_write(to, "logits.html", ((const logits_result *)user)->title, cli_logits_json, user,
                          err);
}

clef_status cli_logits_svg(void *user, FILE *to, clef_error *err)
{
    const logits_result *r = user;
    float *nats = malloc(((size_t)r->n + 1) * sizeof *nats);
    cli_curve curve = {.title = r->title, .nats = nats};
    if (!nats)
        return cli_error(err, CLEF_E_NOMEM, "logits: out of host memory");
    for (int32_t i = 0; i < r->n; i++)
        if (r->places[i].rank)
            nats[curve.n++] = (float)r->places[i].nats;
    const clef_status status = cli_curve_svg(&curve, to, err);
    free(nats);
    return status;
}
