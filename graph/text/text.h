/* The text form (docs/graph-format.md): pieces that writing, parsing and the other dumps share. */
#ifndef CLEF_GRAPH_TEXT_H
#define CLEF_GRAPH_TEXT_H

#include "graph/names.h"
#include "graph/op.h"

enum { CLEF_TEXT_VERSION = 1 };

/** Writes x so that the same float is read back ("0.353553385", "inf", "nan"), with a point whatever the
 *  locale. */
void clef__write_float(FILE *to, double x);
/** Reads what clef__write_float writes, and any decimal number with a point. 0 when it is none; -1 when it is
 *  beyond f32's range, or so small that it would become 0. */
int  clef__read_float(const char *text, float *out);
/** Writes a JSON string, quotes included. */
void clef__write_quoted(FILE *to, const char *text);
/** Writes "B", "2*B" or "192". */
void clef__write_dim(FILE *to, const clef_graph *g, clef_dim d);
/** 1 when the attribute is all zero, its default. */
int  clef__attr_is_zero(const clef_value *n, const clef_attr_def *attr);
/** Writes an attribute's value as the text form spells it (json: as a JSON value). */
void clef__write_attr(FILE *to, const clef_value *n, const clef_attr_def *attr, int json);
/** Writes the line of a value, its end included. */
void clef__write_statement(FILE *to, const clef_value *v);
/** 1 when two nodes of one op have the same attributes. */
int  clef__attrs_equal(const clef_value *a, const clef_value *b);
/** The word for a kind of leaf: "input", "weight", "state", "const". */
const char *clef__kind_word(clef_value_kind kind);
/** CLEF_E_IO when the stream has failed. */
clef_status clef__check_stream(FILE *to, const char *what, clef_error *err);

#endif
