# Toolchain for Linux with an old glibc, by the compiler of zig. tools/wheel sets the variables and makes the wrappers.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "$ENV{CLEF_ZIG_MACHINE}")
set(CMAKE_C_COMPILER "$ENV{CLEF_ZIG_BIN}/cc")
set(CMAKE_AR "$ENV{CLEF_ZIG_BIN}/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "$ENV{CLEF_ZIG_BIN}/ranlib" CACHE FILEPATH "")
set(CMAKE_FIND_ROOT_PATH "$ENV{CLEF_ZIG_PREFIX}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} "$ENV{CLEF_ZIG_PREFIX}/lib/pkgconfig") # not the libraries of this machine
