# Writes every page into one C file, as the array cli_pages of tools/inspect/page.h.
# usage: cmake -DOUT=FILE "-DSOURCES=a.html;b.js" -P embed_pages.cmake
set(arrays "")
set(rows "")
set(i 0)
foreach(path IN LISTS SOURCES)
  get_filename_component(name "${path}" NAME)
  file(READ "${path}" hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND arrays "static const unsigned char text_${i}[] = { /* ${name} */\n${hex}0x00};\n")
  string(APPEND rows "    {\"${name}\", (const char *)text_${i}},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(WRITE "${OUT}" "/* Made by cmake/embed_pages.cmake from tools/pages/. */
#include \"tools/inspect/page.h\"

${arrays}
const cli_page_file cli_pages[] = {
${rows}    {0, 0},
};
")
