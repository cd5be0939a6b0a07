# Man pages and completions. The command writes them from its own tables, so that they cannot differ from it.
#
# A cross build cannot run the command that it has built. It needs CMAKE_CROSSCOMPILING_EMULATOR, or a clef of
# the same version that runs here: -DCLEF_MANUAL_COMMAND=/path/to/clef. With neither, they are left out.
if(WIN32)
  return() # it has no man, and none of these shells
endif()
set(CLEF_MANUAL_COMMAND "" CACHE FILEPATH "For a cross build: a clef that runs here, to write the man pages")
if(CLEF_MANUAL_COMMAND)
  set(manual_command "${CLEF_MANUAL_COMMAND}")
elseif(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "No man pages and completions: set CLEF_MANUAL_COMMAND to a clef that runs on this machine")
  return()
else()
  set(manual_command clef_command) # CMake runs it through the emulator, if there is one
endif()

string(TIMESTAMP manual_date "%Y-%m-%d" UTC) # of $SOURCE_DATE_EPOCH, where that is set
set(manual_dir "${PROJECT_BINARY_DIR}/manual")
file(MAKE_DIRECTORY "${manual_dir}")
set(manual_files "")

# Adds the file `name` of build/manual: what `clef help ARGUMENTS..` prints.
function(add_manual name)
  add_custom_command(OUTPUT "${manual_dir}/${name}"
    COMMAND ${manual_command} help ${ARGN} > "${manual_dir}/${name}"
    DEPENDS ${manual_command} COMMENT "Writing ${name}" VERBATIM)
  set(manual_files ${manual_files} "${manual_dir}/${name}" PARENT_SCOPE)
endfunction()

add_manual(clef.1 --man ${manual_date})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/cli/commands.def")
file(STRINGS "${PROJECT_SOURCE_DIR}/tools/cli/commands.def" rows REGEX "^(COMMAND|#if |#endif)")
set(is_built ON)
foreach(row IN LISTS rows)
  if(row MATCHES "#if CLEF_WITH_(.*)")
    set(is_built ${CLEF_${CMAKE_MATCH_1}})
  elseif(row MATCHES "#endif")
    set(is_built ON)
  endif()
  if(NOT row MATCHES "^COMMAND" OR NOT is_built)
    continue()
  endif()
  string(REGEX REPLACE "COMMAND\\((.*)\\)" "\\1" command "${row}")
  add_manual("clef-${command}.1" --man ${manual_date} ${command})
endforeach()
set(man_files ${manual_files})
add_manual(clef.bash --completion bash)
add_manual(_clef --completion zsh)
add_manual(clef.fish --completion fish)
add_custom_target(clef_manual ALL DEPENDS ${manual_files})

install(FILES ${man_files} DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT clef)
install(FILES "${manual_dir}/clef.bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
  RENAME clef COMPONENT clef)
install(FILES "${manual_dir}/_clef" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" COMPONENT clef)
install(FILES "${manual_dir}/clef.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d"
  COMPONENT clef)
