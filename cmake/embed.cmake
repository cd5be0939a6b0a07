# Writes files into one C file, as an array of graph/embedded.h.
# usage: cmake -DOUT=FILE [-DROOT=FOLDER] -DARRAY=NAME "-DSOURCES=a.cl;b.h" -P embed.cmake
# Names are paths below ROOT; without it they have no folder.
set(arrays "")
set(rows "")
set(i 0)
foreach(path IN LISTS SOURCES)
  if(ROOT)
    file(RELATIVE_PATH name "${ROOT}" "${path}")
  else()
    get_filename_component(name "${path}" NAME)
  endif()
  file(READ "${path}" hex HEX)
  string(LENGTH "${hex}" n_digits)
  math(EXPR n_bytes "${n_digits} / 2")
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND arrays "static const unsigned char text_${i}[] = { /* ${name} */\n${hex}0x00};\n")
  file(SHA256 "${path}" sum)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," sum "${sum}")
  string(APPEND rows "    {\"${name}\", text_${i}, ${n_bytes},\n     {${sum}}},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(WRITE "${OUT}" "/* Made by cmake/embed.cmake. */
#include \"graph/embedded.h\"

${arrays}
const clef_embedded ${ARRAY}[] = {
${rows}    {0, 0, 0, {0}},
};
")
