# names_of_file() of cmake/units.cmake finds what a file defines for itself, so that files that clash stay apart.
include("${CMAKE_CURRENT_LIST_DIR}/../cmake/units.cmake")
names_of_file("
static int is_apart, ends_with_all;
static struct action
    old_actions[3];
static const char quote[] = \"<a>\", call_end[] = \"<b>\";
enum { A, MOST = 4 };
typedef int call(int a, int b);
typedef int (*pointer)(void);
typedef struct pair {
    int first;
} pair_type;
#    define DEEP 3
static double mean(int a, int b)
{
    static int inner, other;
}
" names)
list(SORT names COMPARE STRING CASE INSENSITIVE)
set(expected A call call_end DEEP ends_with_all is_apart mean MOST old_actions pair pair_type pointer quote)
if(names STREQUAL expected)
  message("1 passed, 0 failed")
else()
  message(FATAL_ERROR "names of a file: expected ${expected}, got ${names}")
endif()
