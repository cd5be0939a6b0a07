/* What several commands share: flags of the same meaning, and reading their files. */
#ifndef CLEF_TOOLS_COMMON_H
#define CLEF_TOOLS_COMMON_H

#include "clef/clef.h"
#include "tools/cli.h"

/** "off", "on", "auto": by clef_pin. */
extern const char *const cli_pin_names[];
/** "auto", "own", "clblast": by clef_gemm. */
extern const char *const cli_gemm_names[];
/** "auto", "f32", "f16", "q8_0": what a KV cache may hold. */
extern const char *const cli_kv_type_names[];
/** The dtype of a choice of these. auto: f32 where most bytes of the weights are f32 or `exact` is asked for,
 *  or there is no model (NULL); else f16, which loses less than the weights lost. */
clef_dtype cli_kv_type(const clef_model *model, int32_t choice, int32_t exact);

#define DEVICE_OPTION(options)                                                                       \
    {.names = "device", .letter = 'd', .type = CLI_TEXT, .value = "DEVICE",                          \
     .offset = offsetof(options, device), .env = "CLEF_DEVICE",                                      \
     .help = "the OpenCL device: platform and number (0:1), a part of its name, or auto; see `clef " \
             "devices`"}
/* Of commands that split a model over devices. */
#define DEVICES_OPTION(options)                                                                         \
    {.names = "device", .letter = 'd', .type = CLI_TEXT, .value = "DEVICE",                             \
     .offset = offsetof(options, device), .env = "CLEF_DEVICE",                                         \
     .help = "the OpenCL device: platform and number (0:1), a part of its name, or auto; see `clef "    \
             "devices`. A,B splits the layers over two devices"},                                       \
    {.names = "split", .type = CLI_TEXT, .value = "60,40", .offset = offsetof(options, split),          \
     .help = "with several devices: each one's share of the layers [by measured speed, within memory]"}
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
     .help = "pin each CPU thread to a processor, with PoCL; auto: if the machine is idle, where it is " \
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
     .help = "fail if an op would run by another kernel than --gemm or CLEF_VARIANT name, or by a second " \
             "choice because the first failed its proof"}
/* The options of commands that make plans; their struct has a clef_compile_opts called `compile`. */
#define COMPILE_OPTIONS(options)                                                              \
    GEMM_OPTION(options), EXACT_OPTION(options), TUNE_OPTION(options), PROOF_OPTION(options), \
    STRICT_OPTION(options)
#define QUIET_OPTION(options)                                                                 \
    {.names = "quiet", .letter = 'q', .type = CLI_SWITCH, .offset = offsetof(options, quiet), \
     .help = "print no progress and no statistics, only errors"}
#define MODEL_OPTION(options)                                                 \
    {.names = "model", .letter = 'm', .type = CLI_TEXT, .value = "MODEL",     \
     .offset = offsetof(options, model), .help = "another way to name MODEL"}

/** The model that the command line names: the argument, else `flag`, else the one that comes with clef. NULL
 *  after a message. */
const char *cli_model_path(const char *command, int32_t n_args, char **args, const char *flag);

/** Which of the forms `names` (ended by NULL) is written: `format` where that is one (-1: not said), else
 *  what the file `out` ends in; names[0], text, for one that ends in nothing, in .txt or in .`text`, and for
 *  NULL, stdout. -1 after a message: CLI_USAGE. */
int32_t cli_format_of(const char *command, const char *const *names, const char *text, int32_t format,
                      const char *out);

/** 1 when the path names a graph in the text form (it ends in .clef). */
int cli_is_graph_file(const char *path);
/** Reads and parses such a file. */
clef_status cli_graph_file_open(const char *path, clef_graph **out, clef_error *err);

/** A device's notice (clef_device_opts): one line on stderr. */
void cli_say_notice(void *user, const char *text);
/** A line on stderr for each device: which it is. */
void cli_say_device(clef_device *device);
/** CLI_GO_ON where it is one device; else says that `what` is of one, and returns an exit code. */
int cli_one_device(clef_device *device, const char *command, const char *what);
/** Opens what -d names, several devices too, and gives them what --split (NULL: not given) says. */
clef_status cli_devices_open(const char *which, const char *split, const clef_device_opts *opts,
                             clef_device **out, clef_error *err);

/** Makes each value of the list an output of its name, where it is none yet. CLEF_E_NOT_FOUND names one that
 *  is not in the graph. */
clef_status cli_graph_tap(clef_graph *graph, const char *path, const cli_list *taps, clef_error *err);

/** Reads a whole file ("-": stdin), NUL-terminated; the caller frees *out. CLI_GO_ON, or an exit code after a
 *  message. */
int cli_read_file(const char *path, char **out, size_t *n_bytes);

/** Fills err and returns the status, as the library does. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
clef_status cli_error(clef_error *err, clef_status status, const char *format, ...);

/** "[2, 8, 1024]" of numbers, in out. Returns out. */
char *cli_dims_text(int32_t rank, const int64_t *dims, char out[96]);
/** "5.6 MiB", in out. Returns out. */
char *cli_bytes_text(uint64_t n_bytes, char out[24]);

#endif
