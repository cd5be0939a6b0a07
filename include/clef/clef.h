/* clef: transformers on any OpenCL device. This header brings the whole public API. */
#ifndef CLEF_CLEF_H
#define CLEF_CLEF_H

#include "clef/batch.h"
#include "clef/cache.h"
#include "clef/classify.h"
#include "clef/constrain.h"
#include "clef/dataset.h"
#include "clef/device.h"
#include "clef/embed.h"
#include "clef/generate.h"
#include "clef/gradient.h"
#include "clef/graph.h"
#include "clef/imatrix.h"
#include "clef/lora.h"
#include "clef/model.h"
#include "clef/onnx.h"
#include "clef/picture.h"
#include "clef/plan.h"
#include "clef/ranks.h"
#include "clef/rerank.h"
#include "clef/sampler.h"
#include "clef/selftest.h"
#include "clef/sight.h"
#include "clef/sound.h"
#include "clef/speech.h"
#include "clef/status.h"
#include "clef/stop.h"
#include "clef/template.h"
#include "clef/tokenizer.h"
#include "clef/tools.h"
#include "clef/train.h"
#include "clef/train_files.h"
#include "clef/train_model.h"
#include "clef/tune.h"
#include "clef/vision.h"

#ifdef __cplusplus
extern "C" {
#endif

/** "0.1.0": the library that is running. */
CLEF_API const char *clef_version(void);
/** Path of the model that comes with the library: $CLEF_DEMO_MODEL, else share/clef/demo near the library,
 *  else where it was installed. NULL if none is there. Static. */
CLEF_API const char *clef_demo_model(void);

#ifdef __cplusplus
}
#endif
#endif
