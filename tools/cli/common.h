/* What several commands share: flags with the same meaning, and reading their files. */
#ifndef CLEF_TOOLS_CLI_COMMON_H
#define CLEF_TOOLS_CLI_COMMON_H

#include "clef/clef.h"
#include "tools/cli/cli.h"

/** "off", "on", "auto", in the order of clef_pin. */
extern const char *const cli_pin_names[];
/** "auto", "own", "clblast", in the order of clef_gemm. */
extern const char *const cli_gemm_names[];
/** "auto", "f32", "f16", "q8_0": types of the KV cache. */
extern const char *const cli_kv_type_names[];
/** The dtype of a choice of cli_kv_type_names. auto is f32 if most bytes of the weights are f32, if `exact`
 *  is set, or if there is no model (NULL). Else it is f16, which loses less accuracy than the weights have
 *  lost. */
clef_dtype cli_kv_type(const clef_model *model, int32_t choice, int32_t exact);
/** 1 for a model whose files have a classifier. */
int32_t cli_is_classifier(const clef_model *model);

/** The flags that say how a model is divided. */
typedef struct cli_split {
    const char *shares;        /* of several devices; NULL: not given */
    const char *experts_on;    /* another device; NULL: not given */
    int32_t     width, stages; /* of several ranks; 0: not given */
    int32_t     wire;          /* index in cli_wire_names */
} cli_split;
/** "f32", "f16", "q8". */
extern const char *const cli_wire_names[];

#define DEVICE_OPTION(options)                                                                       \
    {.names = "device", .letter = 'd', .type = CLI_TEXT, .value = "DEVICE",                          \
     .offset = offsetof(options, device), .env = "CLEF_DEVICE",                                      \
     .help = "the OpenCL device: platform and number (0:1), a part of its name, or auto; see `clef " \
             "devices`"}
/* Options of commands that split a model over devices. */
#define DEVICES_OPTION(options)                                                                         \
    {.names = "device", .letter = 'd', .type = CLI_TEXT, .value = "DEVICE",                             \
     .offset = offsetof(options, device), .env = "CLEF_DEVICE",                                         \
     .help = "the OpenCL device: platform and number (0:1), a part of its name, or auto; see `clef "    \
             "devices`. A,B splits the layers over two devices"},                                       \
    SPLIT_OPTIONS(offsetof(options, split))
/* What goes with several devices; `at` is the offset of the cli_split. */
#define SPLIT_OPTIONS(at)                                                                                  \
    {.names = "split", .type = CLI_TEXT, .value = "60,40", .offset = (at) + offsetof(cli_split, shares),   \
     .help = "with several devices: each one's share of the layers [by measured speed, within memory]"},   \
    {.names = "experts-on", .type = CLI_TEXT, .value = "DEVICE",                                           \
     .offset = (at) + offsetof(cli_split, experts_on),                                                     \
     .help = "the device of a mixture's experts, such as the CPU where the GPU's memory is too small for " \
             "them; everything else runs on --device"},                                                    \
    RANKS_OPTIONS(at)
/* Options of commands that may run on several ranks; `at` is the offset of the cli_split. */
#define RANKS_OPTIONS(at)                                                                                  \
    {.names = "tp", .type = CLI_INT, .value = "N", .offset = (at) + offsetof(cli_split, width), .lo = 1,   \
     .hi = 4096,                                                                                           \
     .help = "under mpirun: ranks that share each layer (tensor parallelism) [those of a node]"},          \
    {.names = "pp", .type = CLI_INT, .value = "N", .offset = (at) + offsetof(cli_split, stages), .lo = 1,  \
     .hi = 16,                                                                                             \
     .help = "under mpirun: groups of ranks with layers of their own (pipeline parallelism) [the nodes]"}, \
    {.names = "wire", .type = CLI_CHOICE, .value = "TYPE", .offset = (at) + offsetof(cli_split, wire),     \
     .choices = cli_wire_names,                                                                            \
     .help = "under mpirun: number format of the sums that ranks exchange; f16 halves the bytes, q8 "      \
             "quarters them, and both round"}
#define GEMM_OPTION(options)                                                                         \
    {.names = "gemm", .type = CLI_CHOICE, .value = "HOW", .offset = offsetof(options, compile.gemm), \
     .choices = cli_gemm_names, .env = "CLEF_GEMM", .help = "which kernels multiply dense matrices"}
#define EXACT_OPTION(options)                                                                            \
    {.names = "exact", .type = CLI_SWITCH, .offset = offsetof(options, compile.exact),                   \
     .help = "keep activations in f32; by default, products with quantised weights may round them to 8 " \
             "bits"}
#define THREADS_OPTION(options)                                        \
    {.names = "threads", .letter = 't', .type = CLI_INT, .value = "N", \
     .offset = offsetof(options, n_threads), .lo = 1, .hi = 65536,     \
     .help = "CPU threads, with PoCL [the driver's choice]"}
#define PIN_OPTION(options)                                                                              \
    {.names = "pin", .type = CLI_CHOICE, .value = "WHEN", .offset = offsetof(options, pin),              \
     .choices = cli_pin_names,                                                                           \
     .help = "pin each CPU thread to a processor, with PoCL; auto: only on an idle machine, where it is " \
             "faster"}
#define KV_TYPE_OPTION(options)                                                                            \
    {.names = "kv-type", .type = CLI_CHOICE, .value = "TYPE", .offset = offsetof(options, kv_type),        \
     .choices = cli_kv_type_names,                                                                         \
     .help = "number format of the KV cache. auto: f32 if the weights are f32 or with --exact, else f16; " \
             "q8_0 halves the memory of f16"}
#define TUNE_OPTION(options)                                                                          \
    {.names = "no-tune", .type = CLI_SWITCH, .offset = offsetof(options, compile.no_tune),            \
     .help = "do not measure kernels when a model is first loaded; earlier measurements still count"}
#define PROOF_OPTION(options)                                                                           \
    {.names = "no-proof", .type = CLI_SWITCH, .offset = offsetof(options, compile.no_proof),            \
     .help = "use kernels that are new to this device without first checking their results in a child " \
             "process"}
#define STRICT_OPTION(options)                                                                             \
    {.names = "strict", .type = CLI_SWITCH, .offset = offsetof(options, compile.strict),                   \
     .help = "fail if an op would run by another kernel than --gemm or CLEF_DEBUG names, or by a second " \
             "choice because the first failed its proof"}
/* Options of commands that make plans; their struct has a clef_compile_opts called `compile`. */
#define COMPILE_OPTIONS(options)                                                              \
    GEMM_OPTION(options), EXACT_OPTION(options), TUNE_OPTION(options), PROOF_OPTION(options), \
    STRICT_OPTION(options)
#define QUIET_OPTION(options)                                                                 \
    {.names = "quiet", .letter = 'q', .type = CLI_SWITCH, .offset = offsetof(options, quiet), \
     .help = "print no progress and no statistics, only errors"}
#define VERBOSE_OPTION(options)                                                    \
    {.names = "verbose", .type = CLI_SWITCH, .offset = offsetof(options, verbose), \
     .help = "say which keys of the model's files are not read"}
#define MODEL_OPTION(options)                                                 \
    {.names = "model", .letter = 'm', .type = CLI_TEXT, .value = "MODEL",     \
     .offset = offsetof(options, model), .help = "another way to name MODEL"}

/** The model that the command line names: the argument, else `flag`, else the bundled one. What `clef pull`
 *  got is found by its name (tools/hub/hub.h). NULL after a message. */
const char *cli_model_path(const char *command, int32_t n_args, char **args, const char *flag);

/** Names of dtypes that the weights of a model without weights may have; NULL ends them. */
extern const char *const cli_shape_dtype_names[];
/** Opens a model to plan with: also a config.json, which has no weights. Its matrices have the dtype with
 *  this index in cli_shape_dtype_names. */
clef_status cli_model_open_to_plan(const char *path, int32_t dtype, clef_model **out, clef_error *err);
/** 1 when the path names a config.json (it ends in .json). */
int cli_is_shape_file(const char *path);

/** The index of the output form in `names` (ended by NULL): `format` if it is set (-1: not), else by the
 *  ending of the file `out`. names[0], text, is for files without an ending, for .txt and .`text`, and for
 *  NULL (stdout). -1 after a message: CLI_USAGE. */
int32_t cli_format_of(const char *command, const char *const *names, const char *text, int32_t format,
                      const char *out);

/** 1 when the path names a graph in the text form (it ends in .clef). */
int cli_is_graph_file(const char *path);
/** Reads and parses a graph file. */
clef_status cli_graph_file_open(const char *path, clef_graph **out, clef_error *err);

/** A device's notice (clef_device_opts): one line on stderr. */
void cli_say_notice(void *user, const char *text);
/** Prints a line on stderr with the keys of the model's files that clef does not read and others may. */
void cli_say_unread(const clef_model *model);
/** The same for parts of the files that are not of the text model. */
void cli_say_left_out(const clef_model *model);
/** Prints a line on stderr for each device, with its name. */
void cli_say_device(clef_device *device);
/** Returns CLI_GO_ON if it is a single device. Else says that `what` needs one device, and returns an exit
 *  code. */
int cli_one_device(clef_device *device, const char *command, const char *what);
/** Opens what -d names, also several devices, and sets their shares from --split. On several ranks each
 *  takes a device of the list; rank 0 leads the others, which follow it here until it ends, and do not
 *  return. */
clef_status cli_devices_open(const char *which, const cli_split *split, const clef_device_opts *opts,
                             clef_device **out, clef_error *err);

struct cli_progress;
/** The flags that say where a model runs. */
typedef struct cli_place {
    const char *device;
    cli_split   split;
    int32_t     n_threads, quiet;
} cli_place;
/** Opens a model that has a tokenizer, or reads pictures alone, and the devices it runs on, which are named
 *  on stderr. `progress` is made ready, and Ctrl-C from now on ends the work. CLI_GO_ON, or an exit code
 *  after a message. */
int cli_model_open(const char *path, const cli_place *place, struct cli_progress *progress,
                   clef_model **model, clef_device **device);

/** Makes each value of the list an output of its name, unless it is one. CLEF_E_NOT_FOUND names a value that
 *  is not in the graph. */
clef_status cli_graph_tap(clef_graph *graph, const char *path, const cli_list *taps, clef_error *err);

/** Reads a whole file ("-": stdin), NUL-terminated; the caller frees *out. CLI_GO_ON, or an exit code after a
 *  message. */
int cli_read_file(const char *path, char **out, size_t *n_bytes);

/** Fills err and returns the status, as the library does. */
CLI_PRINTF(3, 4)
clef_status cli_error(clef_error *err, clef_status status, const char *format, ...);
/** Puts BOS before the ids of a rendered conversation where the model is a GGUF file whose texts begin with
 *  it, unless the template wrote it; so does llama.cpp. *ids is for clef_tokens_free(). */
clef_status cli_begin_with_bos(const char *model, const clef_tokenizer *tok, int32_t **ids, int32_t *n,
                               clef_error *err);

/** The last part of a model's path, as a title. */
const char *cli_title_of(const char *path);
/** Writes "[2, 8, 1024]" to `out`, and returns it. */
char *cli_dims_text(int32_t rank, const int64_t *dims, char out[96]);
/** Reads a size: "300000", "512M", "2G", the units being powers of 1024. 0: it is none. */
int cli_size_read(const char *text, uint64_t *out);
/** Writes "5.6 MiB" to `out`, and returns it. */
char *cli_bytes_text(uint64_t n_bytes, char out[24]);

#endif
