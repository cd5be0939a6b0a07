/* The text of clef run after a prompt with pictures. */
#include "tools/cli/common.h"
#include "tools/cli/terminal.h"
#include "tools/prompts/run.h"

int cli_run_seen(run *r)
{
    clef_error err = {0};
    const double begin = cli_terminal_seconds();
    const clef_guide guide = {r->guide.constraint, r->guide.trie, r->o->constrain_after};
    const clef_request request = {.ids = r->ids,
                                  .n = r->n_ids,
                                  .n_max = r->o->n_predict > 0 ? r->o->n_predict : 0,
                                  .ignore_eos = 1, /* they are looked for here */
                                  .sampling = r->sampling.opts,
                                  .lora = r->loras != NULL,
                                  .guide = guide.constraint ? &guide : NULL};
    if (r->o->n_predict && cli_teller_begin(&r->teller, &r->pictures, &request, &err) != CLEF_OK)
        return cli_report(&err);
    const int rc = r->o->n_predict ? cli_run_tokens(r) : cli_run_prompt(r);
    if (r->fed == 0)
        r->fed = cli_terminal_seconds();
    r->prompt_seconds = r->fed - begin;
    r->new_seconds = cli_terminal_seconds() - r->fed;
    return rc;
}
