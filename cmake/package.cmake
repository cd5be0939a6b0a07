# `cpack -G TGZ` and `cpack -G DEB`, in the build folder: one archive and one Debian package with all that is installed.
# The packages in debian/, which tools/packages builds, are the finer ones.
set(CPACK_PACKAGE_NAME clef)
set(CPACK_PACKAGE_VENDOR "the clef project")
set(CPACK_PACKAGE_CONTACT "The clef maintainers <maintainers@clef.example>")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" system)
set(CPACK_PACKAGE_FILE_NAME "clef-${PROJECT_VERSION}-${system}")
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS ${CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})
# With SOURCE_DATE_EPOCH set, every file in the archive has that time, so that two builds give the same bytes.
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/package_times.cmake")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ocl-icd-libopencl1 | libopencl1, pocl-opencl-icd | opencl-icd")
# Its files are those of these packages.
set(CPACK_DEBIAN_PACKAGE_CONFLICTS "libclef0, libclef-dev")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
