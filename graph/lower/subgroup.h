/* Subgroups in lowering: what the device supports, and the constants of kernels (cl/subgroup.h). */
#ifndef CLEF_GRAPH_SUBGROUP_H
#define CLEF_GRAPH_SUBGROUP_H

#include "graph/op.h"

/** How the work-items of a group exchange values without local memory: -D SUBGROUPS of cl/subgroup.h. */
typedef enum clef_subgroups {
    CLEF_SUBGROUPS_NONE,
    CLEF_SUBGROUPS_BUILTIN,
    CLEF_SUBGROUPS_PTX
} clef_subgroups;

/** What a device supports; and for a program that uses subgroups: -D SUBGROUP_SIZE, and clef_launch.c_version
 *  (compilers declare the built-ins from OpenCL C 2.0 on, some in 1.2). */
clef_subgroups clef__subgroups_of(const clef_caps *caps);
int32_t        clef__subgroup_demand(const clef_caps *caps, clef_subgroups kind);
int32_t        clef__subgroup_c_version(const clef_caps *caps, clef_subgroups kind);

/** .runs_on and .fits of variants that reduce rows by cl/group.h: the device has subgroups; it has shuffles
 *  too; a group has at least one whole subgroup. */
int            clef__has_subgroups(const clef_caps *caps);
int            clef__has_shuffles(const clef_caps *caps);
int            clef__row_takes_subgroups(const clef_lowering *lo, const clef_value *n);
#define CLEF_NEEDS_SUBGROUPS "subgroups (OpenCL's, Intel's, or by PTX)"
/** The subgroups of the variant that lowers: NONE unless its .runs_on is clef__has_subgroups. */
clef_subgroups clef__serving_subgroups(const clef_lowering *lo);

/** The constants of a program, as rows of clef_launch.defs. */
#define CLEF_SUBGROUP_DEFS(lo)                              \
    {"SUBGROUPS", (int32_t)clef__serving_subgroups(lo)},    \
        {"SUBGROUP_SIZE", clef__subgroup_demand((lo)->caps, clef__serving_subgroups(lo))}

#define CLEF_SUBGROUP_C_VERSION(lo) clef__subgroup_c_version((lo)->caps, clef__serving_subgroups(lo))

/** The two variants of an op in which a group reduces each row of the first input: by subgroups, and by local
 *  memory alone, on any device. */
#define CLEF_ROW_VARIANTS(op, lower_rows)                                            \
    const clef_variant clef__##op##_subgroup = {.name = "subgroup",                  \
                                                .device_text = CLEF_NEEDS_SUBGROUPS, \
                                                .shape_text = "rows for groups",     \
                                                .runs_on = clef__has_subgroups,      \
                                                .fits = clef__row_takes_subgroups,   \
                                                .lower = lower_rows};                \
    const clef_variant clef__##op##_groups = {.name = "groups", .lower = lower_rows}

#endif
