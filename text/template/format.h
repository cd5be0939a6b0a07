/* Text with fields, as Python fills them. */
#ifndef CLEF_TEXT_TEMPLATE_FORMAT_H
#define CLEF_TEXT_TEMPLATE_FORMAT_H

#include "text/template/engine.h"

/** s % values: a tuple has a value for each field, a dict one for each name, all else is one value. */
clef__value clef__format_percent(clef__tpl *t, const clef__str *s, clef__value values);
/** The filter `format`: values by position or by name. */
clef__builtin clef__filter_format;
/** The method s.format(). */
clef__builtin clef__format_braces;

#endif
