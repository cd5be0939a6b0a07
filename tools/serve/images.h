/* Pictures in the messages of a request. */
#ifndef CLEF_TOOLS_SERVE_IMAGES_H
#define CLEF_TOOLS_SERVE_IMAGES_H

#include "tools/serve/http.h"
#include "tools/serve/params.h"

/** Reads the parts of type image_url of p->messages, which were checked, into p->pictures. Templates then see
 *  {"type": "image"}, and lists of parts in all messages. Returns 0 and sets the request's error for a URL
 *  that is not data:, for bytes that are no picture, and for a model that reads none. */
int serve_images_read(serve_request *r, serve_params *p);

#endif
