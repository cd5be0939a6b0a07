/* clef pull: gets a model from the Hub. */
#include "tools/cli/common.h"
#ifdef CLEF_HAVE_CURL
#    include "tools/pull/pull.h"
#endif

typedef struct pull_options {
    const char *revision;
    int32_t quiet;
} pull_options;

static const pull_options pull_defaults = {.revision = "main"};

static const cli_option pull_option_table[] = {
    {.names = "revision",
     .type = CLI_TEXT,
     .value = "NAME",
     .offset = offsetof(pull_options, revision),
     .help =
         "a branch, a tag or a commit; the others than main are found by the path that is printed [main]"},
    QUIET_OPTION(pull_options),
    {.names = NULL},
};

static int pull_run(const void *options, int32_t n_args, char **args)
{
    const pull_options *o = options;
    (void)n_args;
#ifdef CLEF_HAVE_CURL
    return pull_model(&(pull_opts){.model = args[0], .revision = o->revision, .quiet = o->quiet});
#else
    (void)o, (void)args;
    return cli_fail(CLI_FAILED, "pull: this clef was built without libcurl and GnuTLS");
#endif
}

const cli_command cli_command_pull = {
    .name = "pull",
    .usage = "ORG/REPO[:QUANT]",
    .summary = "Get a model from the Hugging Face Hub",
    .notes = "Its files go into the cache that huggingface_hub uses. After that its name stands for MODEL in "
             "every "
             "command. QUANT chooses one of several GGUF files; without it, it is the only one, or Q4_K_M. "
             "What was "
             "cut is gone on with, and checksums are compared.\n"
             "HF_TOKEN is the token for models that need one. HF_ENDPOINT names another Hub; HF_HUB_CACHE or "
             "HF_HOME "
             "another folder.\n\n"
             "  clef pull Qwen/Qwen2.5-0.5B-Instruct\n"
             "  clef run Qwen/Qwen2.5-0.5B-Instruct -p \"Hello\"\n",
    .options = pull_option_table,
    .min_args = 1,
    .max_args = 1,
    .apart = 1,
    .defaults = &pull_defaults,
    .options_bytes = sizeof pull_defaults,
    .run = pull_run,
};
