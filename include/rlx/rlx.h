/* SPDX-License-Identifier: MIT */
/* rlx: compile neural-network graphs and run them on the CPU or any GPU. Includes all of the API.
 *
 *   base.h       statuses, errors, element types, memory and log hooks
 *   graph.h      graphs: leaves, named dimensions, verification, text form
 *   ops.h        the builders of the operations
 *   device.h     list and open devices
 *   session.h    compile, set weights, run, read results
 *   npy.h        NumPy files
 *   file.h       tensors and metadata of GGUF and safetensors files
 *   quantize.h   packing of weights, and the writer of GGUF files
 *   tokenizer.h  text to token ids and back
 *   model.h      models from files: generation, chat, embeddings */
#ifndef RLX_RLX_H
#define RLX_RLX_H

#include "base.h"
#include "device.h"
#include "file.h"
#include "graph.h"
#include "model.h"
#include "npy.h"
#include "ops.h"
#include "quantize.h"
#include "session.h"
#include "tokenizer.h"

#endif
