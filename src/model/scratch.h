// scratch.h: the memory that a forward pass works in, for up to max_rows rows.
//
// Allocated once with the transformer; only `partials` grows, with the context. Used by one pass at
// a time. // widths: see ModelConfig
#pragma once
#include <memory>
#include <vector>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "kernels/activations.h"
#include "model/config.h"
#include "model/rope.h"

namespace quire::model {

/// What a feed-forward block works in.
struct FfnScratch {
  HugeBuffer gate, up;             // [rows, ffn]
  kernels::Activations activated;  // [rows, ffn]

  static Result<FfnScratch> allocate(int64_t rows, int64_t ffn, bool gated);
  int64_t bytes() const;
};

/// What a layer with experts works in. A pair is a row and one of its experts.
struct ExpertScratch {
  HugeBuffer shares;          // [max_rows, experts]: the router's logits, then their softmax
  kernels::Activations rows;  // [pairs, hidden]: the rows of each expert side by side
  FfnScratch ffn;             // [pairs, expert ffn]
  HugeBuffer results;         // [pairs, hidden]
  FfnScratch shared;          // [max_rows, shared ffn]
  HugeBuffer shared_result;   // [max_rows, hidden]
  HugeBuffer switches;        // [max_rows]

  static Result<ExpertScratch> allocate(const ModelConfig& c, int64_t rows);
  int64_t bytes() const;
};

struct Scratch {
  HugeBuffer stream;                // [max_rows, hidden]: the residual stream
  HugeBuffer q, k, v;               // [max_rows, q_width], [max_rows, kv_width]
  HugeBuffer branch;                // [max_rows, hidden]: what a block adds
  HugeBuffer cos, sin;              // [ropes, max_rows, head_dim / 2]
  kernels::Activations normed;      // [max_rows, hidden]
  kernels::Activations ffn_normed;  // the same, where attention and feed-forward run side by side
  kernels::Activations attended;    // [max_rows, q_width]
  FfnScratch ffn;                   // of dense layers
  ExpertScratch experts;
  HugeBuffer partials;  // attention's partial results
  std::vector<Rope> ropes;
  std::vector<int32_t> positions;  // [num_rows] of the batch at hand

  static Result<std::unique_ptr<Scratch>> allocate(const ModelConfig& c, int64_t max_rows,
                                                   int64_t window_tokens);
  int64_t bytes() const;
};

}  // namespace quire::model
