/* The list of devices, and the search for the one that the user names. */
#ifndef CLEF_RUNTIME_DEVICE_FIND_H
#define CLEF_RUNTIME_DEVICE_FIND_H

#include "runtime/device/device.h"

typedef struct clef_found {
    clef_device_info info;
    cl_platform_id   platform;
    cl_device_id     id;
    cl_device_type   type;
    char             card[24]; /* where the card is: "0000:01:00.0"; "": the driver does not say */
    unsigned char    uuid[16]; /* what tells it from all others; zeros: the driver does not say */
    double           read_gb_s; /* as measured earlier; 0: it was not, or nothing depends on it */
} clef_found;

typedef struct clef_found_list {
    clef_found *at;
    int32_t     n, n_platforms;
} clef_found_list;

/** Lists every device of every platform, after clef__driver_cache_find(cache_dir). The caller frees list->at,
 *  on failure too. CLEF_E_NOMEM, CLEF_E_CL. */
clef_status clef__find_all(const char *cache_dir, clef_found_list *list, clef_error *err);
/** Notes why a device is taken where none is named: what sets it before the next best. A GPU goes before
 *  other devices, own memory before the host's, then more memory, then, if all of these were measured,
 *  faster memory; of one device's drivers that with the newest OpenCL is taken. Units and clocks say nothing
 *  about other makes. */
void        clef__find_choice(const clef_found_list *list);
/** The device that `which` names (as in clef_device_open(), but one alone); it stays in the list.
 *  CLEF_E_DEVICE lists what exists. */
clef_status clef__find_one(const clef_found_list *list, const char *which, const clef_found **out,
                           clef_error *err);
/** 1 when the text is a part of a device's or a platform's name. */
int         clef__found_named(const clef_found_list *list, const char *which);

#endif
