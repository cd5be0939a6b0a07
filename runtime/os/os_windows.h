/* What the files of the Windows implementation share. */
#ifndef CLEF_RUNTIME_OS_WINDOWS_H
#define CLEF_RUNTIME_OS_WINDOWS_H

#define WIN32_LEAN_AND_MEAN
#include <stdint.h>
#include <wchar.h>
#include <windows.h>

#include "clef/status.h"

/** A path in UTF-8 as the system wants it: in UTF-16, and behind \\?\ where it is longer than MAX_PATH
 *  allows. The caller frees it with free(). NULL: out of memory, or no UTF-8; GetLastError() says why. */
wchar_t *clef__windows_path(const char *path);
/** A text in UTF-8 as UTF-16, and back. The caller frees it with free(); NULL as above. */
wchar_t *clef__windows_wide(const char *text);
char    *clef__windows_narrow(const wchar_t *text);
/** Fails with the system's own words for GetLastError(). */
clef_status clef__windows_fail(clef_error *err, const char *doing, const char *path);
/** The system's words for an error, without a line end. */
void     clef__windows_reason(DWORD code, char *out, size_t room);
/** Seconds of a FILETIME, which counts 100 ns. */
double   clef__windows_seconds(FILETIME time);

#endif
