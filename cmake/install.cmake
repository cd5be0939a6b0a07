# What `cmake --install` puts where. Everything finds its neighbours by relative paths, so that the prefix may be moved.
install(TARGETS clef_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT clef)
install(TARGETS clef EXPORT clefTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT clef
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT clef ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT clef)
install(TARGETS clef_static EXPORT clefStaticTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT clef)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/clef" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT clef FILES_MATCHING PATTERN "*.h")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/model/demo" DESTINATION "${CMAKE_INSTALL_DATADIR}/clef" COMPONENT clef)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT clef)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/clef")
install(EXPORT clefTargets NAMESPACE clef:: DESTINATION "${package_dir}" COMPONENT clef)
install(EXPORT clefStaticTargets NAMESPACE clef:: DESTINATION "${package_dir}" COMPONENT clef)
configure_package_config_file(cmake/clefConfig.cmake.in "${PROJECT_BINARY_DIR}/clefConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/clefConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/clefConfig.cmake" "${PROJECT_BINARY_DIR}/clefConfigVersion.cmake" DESTINATION "${package_dir}"
  COMPONENT clef)

file(RELATIVE_PATH CLEF_PC_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
file(RELATIVE_PATH CLEF_PC_LIBDIR "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_LIBDIR}")
file(RELATIVE_PATH CLEF_PC_INCLUDEDIR "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
set(CLEF_PC_REQUIRES "libpcre2-8 libutf8proc jansson")
if(clblast) # linked
  string(APPEND CLEF_PC_REQUIRES " clblast")
endif()
if(CLEF_HAVE_ONNX)
  string(APPEND CLEF_PC_REQUIRES " libprotobuf-c")
endif()
set(CLEF_PC_OPENCL "-lOpenCL ")
if(CLEF_DLOPEN_OPENCL)
  set(CLEF_PC_OPENCL "-ldl ")
endif()
configure_file(cmake/clef.pc.in clef.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/clef.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT clef)
