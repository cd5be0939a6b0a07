# Read by CMake after its own rules for macOS. Those ask sw_vers for the version of the system. Where there is no Mac to
# answer, they take the linker for one without rpaths, and programs would name libclef by its path in the build folder.
set(CMAKE_SHARED_LIBRARY_RUNTIME_C_FLAG "-Wl,-rpath,")
