/* What commands share that read pictures: a model with an encoder of pictures on a device, and its pixels. */
#ifndef CLEF_TOOLS_PICTURE_H
#define CLEF_TOOLS_PICTURE_H

#include "clef/vision.h"
#include "tools/cli/common.h"
#include "tools/cli/progress.h"

/** How it is opened. */
typedef struct cli_picture_opts {
    cli_place         place;
    clef_compile_opts compile;
    clef_vision_opts  vision; /* its compile is set here */
} cli_picture_opts;

/** cli_pictures_finish() accepts it in any state, also zeroed. */
typedef struct cli_pictures {
    clef_model      *model;
    clef_device     *device;
    clef_vision     *vision;
    clef_vision_info info;
    clef_pixels     *pixels; /* [n] */
    int32_t          n;
    cli_progress   progress;
} cli_pictures;

/** Opens a model and makes its pixels of the files; "-" is stdin. CLI_GO_ON, or an exit code after a
 *  message. */
int  cli_pictures_open(cli_pictures *p, const cli_picture_opts *o, const char *model, const cli_list *files);
/** Runs all pictures: *out [n, info.width], which the caller frees. */
int  cli_pictures_run(cli_pictures *p, float **out);
void cli_pictures_finish(cli_pictures *p);

/** An option of commands that read pictures. */
#define IMAGE_OPTION(options, field, text)                                                                \
    {.names = "image", .letter = 'i', .type = CLI_LIST, .value = "FILE",                                  \
     .offset = offsetof(options, field), .help = text}

#endif
