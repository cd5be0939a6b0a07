/* Fuzzes the readers of pictures: decodes a file and reads each pixel of what was made of it. */
#include <stdint.h>
#include <stdlib.h>

#include "clef/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    clef_picture p;
    clef_error err;
    if (clef_picture_read(data, n_bytes, "fuzz", &(clef_picture_opts){.max_pixels = 1 << 20}, &p, &err))
        return 0;
    for (size_t i = 0; i < (size_t)p.width * (size_t)p.height * 3; i++)
        sink += p.rgb[i];
    clef_picture_finish(&p);
    return 0;
}
