/* The devices that there are, and which one the user means. */
#ifndef CLEF_RUNTIME_DEVICE_FIND_H
#define CLEF_RUNTIME_DEVICE_FIND_H

#include "runtime/device/device.h"

typedef struct clef_found {
    clef_device_info info;
    cl_platform_id   platform;
    cl_device_id     id;
    cl_device_type   type;
} clef_found;

typedef struct clef_found_list {
    clef_found *at;
    int32_t     n, n_platforms;
} clef_found_list;

/** Every device of every platform. The caller frees list->at, on failure too. CLEF_E_NOMEM, CLEF_E_CL. */
clef_status clef__find_all(clef_found_list *list, clef_error *err);
/** The one that `which` names (clef_device_open(), but no list); it stays in the list. CLEF_E_DEVICE says
 *  what there is. */
clef_status clef__find_one(const clef_found_list *list, const char *which, const clef_found **out,
                           clef_error *err);
/** 1 when all of the text is a part of a device's or a platform's name. */
int         clef__found_named(const clef_found_list *list, const char *which);

#endif
