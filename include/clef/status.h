/* Statuses, and the record of what went wrong. */
#ifndef CLEF_STATUS_H
#define CLEF_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(CLEF_SHARED)
#  ifdef CLEF_BUILDING
#    define CLEF_API __declspec(dllexport)
#  else
#    define CLEF_API __declspec(dllimport)
#  endif
#elif defined(__GNUC__)
#  define CLEF_API __attribute__((visibility("default")))
#else
#  define CLEF_API
#endif

/** Every status: its name, and its text when nothing more is known. */
#define CLEF_STATUSES(X)                                                                     \
    X(OK, "success")                                                                         \
    X(E_ARG, "invalid argument")                                                             \
    X(E_NOMEM, "out of host memory")                                                         \
    X(E_IO, "cannot read or write a file")                                                   \
    X(E_FORMAT, "malformed file or text")                                                    \
    X(E_UNSUPPORTED, "valid, but not supported here")                                        \
    X(E_SHAPE, "shapes or dtypes do not fit")                                                \
    X(E_NOT_FOUND, "no such thing")                                                          \
    X(E_LIMIT, "beyond a limit of the model or the device")                                  \
    X(E_DEVICE, "no usable OpenCL device")                                                   \
    X(E_BUILD, "an OpenCL program does not build")                                           \
    X(E_CL, "an OpenCL call failed")                                                         \
    X(E_CANCELLED, "interrupted by the caller")                                              \
    X(E_NOT_FINITE, "a result is not a finite number")

typedef enum clef_status {
#define CLEF_X(name, text) CLEF_##name,
    CLEF_STATUSES(CLEF_X)
#undef CLEF_X
    CLEF_N_STATUSES
} clef_status;

/** A description of what went wrong. The caller owns it (on the stack, for example) and may pass NULL
 *  instead. A function that succeeds does not change it. */
typedef struct clef_error {
    clef_status status;
    int32_t     cl_code;    /* the OpenCL or CLBlast code when status is CLEF_E_CL or CLEF_E_BUILD, else 0 */
    char        text[1024]; /* one sentence: the subject, what was expected, what it got; a build log may
                               follow on further lines */
} clef_error;

/** The name of a status ("E_SHAPE") and its sentence. Both static; "?" for a number that is not a status. */
CLEF_API const char *clef_status_name(clef_status status);
CLEF_API const char *clef_status_text(clef_status status);

#ifdef __cplusplus
}
#endif
#endif
