/* Included before every file by `tools/windows msvc`: MinGW's headers as a compiler needs them that is not
 * GCC. They remove __attribute__ then, which clang's own headers use, and leave these undefined. */
#include <_mingw.h>
#undef __attribute__
#define __MINGW_ATTRIB_CONST
#define __MINGW_ATTRIB_DEPRECATED
#define __MINGW_ATTRIB_DEPRECATED_MSVC2005
#define __MINGW_ATTRIB_DEPRECATED_SEC_WARN
#define __MINGW_ATTRIB_DEPRECATED_STR(text)
#define __MINGW_ATTRIB_MALLOC
#define __MINGW_ATTRIB_NONNULL(number)
#define __MINGW_ATTRIB_NORETURN
#define __MINGW_ATTRIB_PURE
#define __MINGW_ATTRIB_UNUSED
#define __MINGW_ATTRIB_USED
