/* How the library reports an error: it fills the caller's clef_error and returns the status. */
#ifndef CLEF_GRAPH_FAIL_H
#define CLEF_GRAPH_FAIL_H

#include "clef/status.h"

#if defined(__GNUC__)
#  if defined(__MINGW32__) /* there, "printf" means Microsoft's, with other letters for long numbers */
#    define CLEF_PRINTF(fmt, args) __attribute__((format(gnu_printf, fmt, args)))
#  else
#    define CLEF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#  endif
#else
#  define CLEF_PRINTF(fmt, args)
#endif

/** Writes the status and the formatted sentence into `err` (unless it is NULL) and returns `status`. A text
 *  that is too long for the record is cut at its end. */
clef_status clef__fail(clef_error *err, clef_status status, const char *format, ...) CLEF_PRINTF(3, 4);

/** clef__fail() with an OpenCL code. */
clef_status clef__fail_cl(clef_error *err, clef_status status, int32_t cl_code, const char *format, ...)
                          CLEF_PRINTF(4, 5);

#endif
