/* What a driver says of a device. */
#ifndef CLEF_RUNTIME_CAPS_H
#define CLEF_RUNTIME_CAPS_H

#include "runtime/device/device.h"

/** Fills name, vendor, platform_name, version, driver, caps and refused of *info; platform and index are left
 *  alone. Texts are trimmed and their runs of blanks made one. A query that fails leaves zero or an empty
 *  text, and the device is refused where clef needs the answer. */
void clef__caps_query(cl_platform_id platform, cl_device_id id, clef_device_info *info);

#endif
