/* SPDX-License-Identifier: MIT */
/* rlx: compile neural-network graphs and run them on the CPU or any GPU. Includes all of the API.
 *
 *   base.h       statuses, errors, element types, memory and log hooks
 *   graph.h      graphs: leaves, named dimensions, verification, text form
 *   nodes.h      reading a graph node by node
 *   ops.h        the builders of the operations
 *   grad.h       derivatives as graphs
 *   train.h      losses, optimisers, training states in files
 *   custom.h     operations of your own
 *   device.h     list and open devices
 *   buffer.h     memory of a device that sessions share
 *   session.h    compile, set weights, run, read results
 *   npy.h        NumPy files
 *   onnx.h       ONNX models as graphs
 *   file.h       tensors and metadata of GGUF and safetensors files
 *   quantize.h   quantising of weights, and the writer of GGUF files
 *   tokenizer.h  text to token ids and back
 *   grammar.h    constrained output: JSON Schema, regular expressions, GBNF
 *   model.h      models from files: generation, chat, embeddings
 *   convert.h    models of safetensors files as GGUF files
 *   imatrix.h    importance matrices, for quantising
 *   engine.h     many sequences at once: requests from any thread */
#ifndef RLX_RLX_H
#define RLX_RLX_H

#include "base.h"
#include "buffer.h"
#include "convert.h"
#include "custom.h"
#include "device.h"
#include "engine.h"
#include "file.h"
#include "grad.h"
#include "grammar.h"
#include "graph.h"
#include "imatrix.h"
#include "model.h"
#include "nodes.h"
#include "npy.h"
#include "onnx.h"
#include "ops.h"
#include "quantize.h"
#include "session.h"
#include "tokenizer.h"
#include "train.h"

#endif
