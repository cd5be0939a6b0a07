# The SBOM: share/doc/clef/clef.spdx.json, in SPDX 2.3. It lists the libraries that this build links, with their
# versions and licences, and the installed files with their sums. It is written when clef is installed, after the
# binaries have got their final bytes. cmake/sbom_write.cmake does the writing.
#
# clef_sbom_library(PKG_CONFIG_NAME "NAME" "LICENCE" FOUND): a library that is linked if FOUND is true.
set(sbom_libraries "")
function(clef_sbom_library module name licence found)
  if(NOT ${found})
    return()
  endif()
  execute_process(COMMAND "${PKG_CONFIG_EXECUTABLE}" --modversion ${module} OUTPUT_VARIABLE version
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT version)
    set(version NOASSERTION)
  endif()
  set(sbom_libraries ${sbom_libraries} "${name}|${version}|${licence}" PARENT_SCOPE)
endfunction()

set(sbom_always ON)
set(sbom_clblast OFF)
if(CLEF_HAVE_CLBLAST AND NOT CLEF_DLOPEN_OPENCL) # else it is opened at run time
  set(sbom_clblast ON)
endif()
set(sbom_gnutls OFF)
if(MICROHTTPD_FOUND AND NOT WIN32)
  set(sbom_gnutls ON)
endif()
clef_sbom_library(libpcre2-8 pcre2 BSD-3-Clause sbom_always)
clef_sbom_library(libutf8proc utf8proc MIT sbom_always)
clef_sbom_library(jansson jansson MIT sbom_always)
clef_sbom_library(libprotobuf-c protobuf-c BSD-2-Clause CLEF_HAVE_ONNX)
clef_sbom_library(clblast clblast Apache-2.0 sbom_clblast)
clef_sbom_library(libmicrohttpd libmicrohttpd LGPL-2.1-or-later MICROHTTPD_FOUND)
clef_sbom_library(gnutls gnutls LGPL-2.1-or-later sbom_gnutls)
clef_sbom_library(libgvc graphviz EPL-1.0 GVC_FOUND)
clef_sbom_library(cairo cairo "LGPL-2.1-only OR MPL-1.1" CAIRO_FOUND)
clef_sbom_library(libedit libedit BSD-3-Clause LIBEDIT_FOUND)
clef_sbom_library(libpng libpng Libpng CLEF_HAVE_PNG)
clef_sbom_library(libjpeg libjpeg-turbo "IJG AND BSD-3-Clause" CLEF_HAVE_JPEG)
clef_sbom_library(libwebp libwebp BSD-3-Clause CLEF_HAVE_WEBP)
clef_sbom_library(sndfile libsndfile LGPL-2.1-or-later CLEF_HAVE_SNDFILE)
clef_sbom_library(libmpg123 mpg123 LGPL-2.1-only CLEF_HAVE_MPG123)
clef_sbom_library(zlib zlib Zlib CLEF_HAVE_ZLIB)

configure_file(cmake/sbom_write.cmake "${PROJECT_BINARY_DIR}/sbom_write.cmake" @ONLY)
install(CODE "
  set(ROOT \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  set(OUT \"\${ROOT}/${CMAKE_INSTALL_DOCDIR}/clef.spdx.json\")
  set(FILES
    \"${CMAKE_INSTALL_BINDIR}/clef${CMAKE_EXECUTABLE_SUFFIX}\"
    \"${library_folder_name}/$<TARGET_FILE_NAME:clef>\"
    \"${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:clef_static>\"
    \"${CMAKE_INSTALL_DATADIR}/clef/demo/model.safetensors\")
  include(\"${PROJECT_BINARY_DIR}/sbom_write.cmake\")
" COMPONENT clef)
