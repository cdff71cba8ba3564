// transformer.h: the forward pass: tokens in, keys and values into pages, logits out.
//
// One pass for every architecture, steered by ModelConfig. The logits of a row are a function of
// the weights, its sequence's tokens up to it, the activation policy and the KV element types: not
// of batch, chunks, threads or instruction set (law 1). Owns scratch for max_rows rows; refers to
// weights, kernels and thread pool, which must outlive it. Thread rule: one forward() at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/kernel_set.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/profile.h"
#include "model/weights.h"

namespace quire::model {

/// Where a layer's keys and values live: which layer group, and which layer of it.
struct KvPlace {
  int32_t group = 0;
  int32_t index = 0;
};

struct TransformerOptions {
  int32_t max_rows = 512;  // rows of a batch
  // The window that was asked for, whatever memory affords: LongRoPE's choice hangs on it.
  int64_t window_tokens = 0;
  kernels::ActivationPolicy policy = kernels::ActivationPolicy::kInt8;
  Profile* profile = nullptr;  // where the time of each step is noted; must outlive the transformer
};

struct Scratch;
class ForwardPass;

/// A pass that has stopped between two layers. Plain data; belongs to one batch.
struct PausedPass {
  int32_t next_layer = 0;
  std::vector<float> stream;  // [rows, hidden], once next_layer > 0
};

class Transformer {
 public:
  struct Parts {
    const ModelConfig* config;
    const Weights* weights;
    const kernels::KernelSet* kernels;
    ThreadPool* threads;
    std::vector<KvPlace> places;  // [num_layers]
  };
  /// Fails only if the scratch memory is refused.
  static Result<std::unique_ptr<Transformer>> create(Parts parts,
                                                     const TransformerOptions& options);
  ~Transformer();
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;

  int32_t max_rows() const;
  /// Bytes of scratch held.
  int64_t scratch_bytes() const;

  /// Runs the batch. Requires num_rows() <= max_rows() and every token inside the vocabulary. Fails
  /// only where the batch's stream does. // logits: [logit_rows, vocab]
  Result<void> forward(const Batch& batch, std::span<float> logits);

  /// Runs layers of `batch` from where `pass` stopped, at least one and further ones while
  /// `goes_on` says so: the same bits as forward(). True once all layers have run and the logits
  /// stand. Between two calls other batches may run, if none has one of these sequences. Requires a
  /// batch without a stream.
  bool forward_some(const Batch& batch, PausedPass& pass, const std::function<bool()>& goes_on,
                    std::span<float> logits);

 private:
  ForwardPass pass_over(const Batch& batch);
  Transformer(Parts parts, const TransformerOptions& options, std::unique_ptr<Scratch> scratch);

  Parts parts_;
  TransformerOptions options_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace quire::model
