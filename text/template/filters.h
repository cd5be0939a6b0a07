/* Filters of lists, which the table of filters names. */
#ifndef CLEF_TEXT_TEMPLATE_FILTERS_H
#define CLEF_TEXT_TEMPLATE_FILTERS_H

#include "text/template/engine.h"

clef__builtin clef__filter_filesizeformat, clef__filter_pprint, clef__filter_striptags, clef__filter_wordwrap,
    clef__filter_xmlattr; /* filters_text.c */
clef__builtin clef__filter_abs, clef__filter_attr, clef__filter_batch, clef__filter_dictsort,
    clef__filter_first, clef__filter_float, clef__filter_groupby, clef__filter_int, clef__filter_items,
    clef__filter_join, clef__filter_last, clef__filter_length, clef__filter_list, clef__filter_map,
    clef__filter_max, clef__filter_min, clef__filter_reject, clef__filter_rejectattr, clef__filter_reverse,
    clef__filter_round, clef__filter_select, clef__filter_selectattr,
    clef__filter_slice, clef__filter_sort, clef__filter_sum, clef__filter_unique;

#endif
