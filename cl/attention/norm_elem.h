/* norm_elem: an element of the weights of the norms of q and k.
 *   -D NORM_TYPE  dtype of the weights, DTYPE_NONE without norms */
#ifndef CLEF_CL_NORM_ELEM_H
#define CLEF_CL_NORM_ELEM_H

#if NORM_TYPE < 0
typedef float norm_elem;
#else
typedef ELEM(NORM_TYPE) norm_elem;
#endif

#endif
