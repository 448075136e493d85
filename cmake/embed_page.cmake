# SPDX-License-Identifier: MIT
# cmake -DSOURCE=DIR -DOUT=FILE -P embed_page.cmake: the files of the server's chat page as a table
# in C (src/serve/page.h). RLX_PAGE_FILES, which RlxTool.cmake reads too, lists them.
set(RLX_PAGE_FILES web/page/index.html web/page/page.css web/page/page.mjs
                   web/page/server.mjs web/demo/demo.css web/demo/markdown.mjs web/demo/ui.mjs
                   web/demo/icon.svg)
if(NOT DEFINED OUT)
    return()
endif()

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_mjs "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
set(arrays "")
set(rows "")
set(index 0)
foreach(file IN LISTS RLX_PAGE_FILES)
    get_filename_component(name "${file}" NAME)
    string(REGEX REPLACE ".*\\." "" ending "${name}")
    set(path "/page/${name}")
    if(name STREQUAL "index.html")
        set(path "/")
    endif()
    file(READ "${SOURCE}/${file}" hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n"
           bytes "${bytes}")
    string(APPEND arrays "static const unsigned char file${index}[] = {\n${bytes}\n};\n")
    string(APPEND rows "    {\"${path}\", \"${type_${ending}}\", file${index}, "
                       "sizeof file${index}},\n")
    math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUT}.new" "/* Made by cmake/embed_page.cmake. */\n#include \"serve/page.h\"\n\n"
     "${arrays}\nconst rx_page_file rx_page_files[] = {\n${rows}};\n"
     "const size_t rx_n_page_files = ${index};\n")
file(RENAME "${OUT}.new" "${OUT}")
