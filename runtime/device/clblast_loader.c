/* Finds CLBlast's functions. */
#include "runtime/device/clblast_loader.h"

#ifndef CLEF_DLOPEN_OPENCL

const clef__clblast *clef__clblast_functions(void)
{
    static const clef__clblast linked = {
#    define NAME(name) .name = name,
#    include "runtime/device/clblast_names.def"
#    undef NAME
    };
    return &linked;
}

const char *clef__clblast_missing(void)
{
    return NULL;
}

#else

#    include "runtime/device/library.h"

/* Where the library is. Its name has the number of its interface, so a newer one is another file. */
static const char *const places[] = {
#    if defined(__APPLE__)
    "libclblast.1.dylib",
#    else
    "libclblast.so.1",
#    endif
    NULL};

static const char *const names[] = {
#    define NAME(name) #    name,
#    include "runtime/device/clblast_names.def"
#    undef NAME
};
enum { N_FUNCTIONS = sizeof names / sizeof *names };

static union {
    clef__clblast by_name;
    void *in_order[N_FUNCTIONS];
} functions;
/* CLBlast calls the system's loader, which does not know the objects of another one. */
static clef__library library = {.unless = "CLEF_OPENCL",
                                .places = places,
                                .names = names,
                                .functions = functions.in_order,
                                .n = N_FUNCTIONS};

const char *clef__clblast_missing(void)
{
    if (!clef__library_open(&library))
        return library.why;
    for (int i = 0; i < N_FUNCTIONS; i++)
        if (!functions.in_order[i])
            return "the CLBlast that is installed lacks functions which clef calls";
    return NULL;
}

const clef__clblast *clef__clblast_functions(void)
{
    return clef__clblast_missing() ? NULL : &functions.by_name;
}
#endif
