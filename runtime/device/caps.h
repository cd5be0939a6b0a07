/* What a driver reports about a device. */
#ifndef CLEF_RUNTIME_CAPS_H
#define CLEF_RUNTIME_CAPS_H

#include "runtime/device/device.h"

/** Fills name, vendor, platform_name, version, driver, caps and refused of *info, but not platform and index.
 *  Texts are trimmed, and runs of blanks become one. A query that fails leaves zero or an empty text. The
 *  device is refused if clef needs the answer. */
void clef__caps_query(cl_platform_id platform, cl_device_id id, clef_device_info *info);
/** Where the card is on its bus, "0000:01:00.0"; "": the driver does not say. */
void clef__caps_card(cl_device_id id, char out[24]);
/** What tells the card from all others, by cl_khr_device_uuid; zeros: the driver does not say. */
void clef__caps_uuid(cl_device_id id, unsigned char out[16]);

#endif
