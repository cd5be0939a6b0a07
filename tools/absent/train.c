#include "clef/train.h"
#include "clef/train_files.h"
#include "tools/absent/absent.h"

clef_train_opts clef_train_defaults(void)
{
    return (clef_train_opts){0};
}

clef_status clef_train_graph(const clef_graph *graph, const char *loss, const clef_train_opts *opts,
                             clef_graph **out, clef_error *err)
{
    (void)graph, (void)loss, (void)opts;
    *out = NULL;
    return CLI_ABSENT(err, "the graph of a training", "CLEF_TRAIN");
}

clef_status clef_tokenizer_train(const clef_tokenizer_train_opts *opts, const char *folder, clef_error *err)
{
    (void)opts, (void)folder;
    return CLI_ABSENT(err, "training a tokenizer", "CLEF_TRAIN");
}
