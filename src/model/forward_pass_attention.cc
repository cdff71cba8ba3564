// The attention block of a forward pass; see forward_pass.h.
#include "model/forward_pass.h"

namespace quire::model {
namespace {

// So few merges take less time than calling the other threads.
constexpr int32_t kMergesAlone = 8;

}  // namespace

void ForwardPass::store_keys_and_values(int32_t layer) {
  const LayerWeights& w = w_.layers[static_cast<size_t>(layer)];
  norm_and_quantize(w.attention_norm, s_.normed, {&w.query.matrix, &w.key.matrix, &w.value.matrix});
  multiply(Step::kQueryKeyValue, {product(w.query.matrix, s_.normed, floats(s_.q)),
                                  product(w.key.matrix, s_.normed, floats(s_.k)),
                                  product(w.value.matrix, s_.normed, floats(s_.v))});
  rotate_and_store(layer);
  seal_full_pages(layer);
}

/// What queries make of the pages, added to the stream.
void ForwardPass::attention_block(int32_t layer) {
  const LayerWeights& w = w_.layers[static_cast<size_t>(layer)];
  attend(layer);
  quantize_rows(s_.attended, {&w.attention_out.matrix});
  if (c_.residual != Residual::kSequential) {
    // The feed-forward block reads the stream as attention did.
    const FfnWeights& ffn = w.ffn;
    norm_and_quantize(w.ffn_norm, s_.ffn_normed, {&ffn.gate.matrix, &ffn.up.matrix});
  }
  add_product(Step::kAttentionOut, w.attention_out, s_.attended, w.post_attention_norm);
}

/// Finishes q, k and v (biases, norms, rotation) and writes k and v into their pages.
void ForwardPass::rotate_and_store(int32_t layer) {
  const StepTimer timer = timed(Step::kStoreKv);
  const LayerWeights& w = w_.layers[static_cast<size_t>(layer)];
  const KvPlace place = places_[static_cast<size_t>(layer)];
  const int32_t rope = c_.layers[static_cast<size_t>(layer)].rope;
  int32_t first_row = 0;
  for (const BatchSequence& part : batch_.sequences) {
    const int32_t offset = first_row;
    for_rows(part.num_rows, [&](int32_t begin, int32_t end) {
      add_bias(w.query.bias, floats(s_.q), offset + begin, offset + end);
      add_bias(w.key.bias, floats(s_.k), offset + begin, offset + end);
      add_bias(w.value.bias, floats(s_.v), offset + begin, offset + end);
      norm_query_and_key(w, offset + begin, offset + end);
      if (rope != kNoRope) rotate(rope, offset + begin, offset + end);
      const kernels::StoreKvArgs store{
          .kv = &part.groups[static_cast<size_t>(place.group)],
          .layer = place.index,
          .first_position = part.first_position,
          .k = floats(s_.k) + offset * c_.kv_width(),
          .v = floats(s_.v) + offset * c_.kv_width(),
          .kv_stride = c_.kv_width(),
      };
      kernels_.store_kv(store, begin, end);
    });
    first_row += part.num_rows;
  }
}

void ForwardPass::norm_query_and_key(const LayerWeights& w, int32_t row_begin, int32_t row_end) {
  float* q = floats(s_.q);
  float* k = floats(s_.k);
  if (c_.qk_norm == QkNorm::kHeads) {
    // Heads are side by side: each is a row of head_dim.
    norm_rows(w.query_norm, q, q, c_.head_dim, int64_t{row_begin} * c_.num_heads,
              int64_t{row_end} * c_.num_heads);
    norm_rows(w.key_norm, k, k, c_.head_dim, int64_t{row_begin} * c_.num_kv_heads,
              int64_t{row_end} * c_.num_kv_heads);
  } else if (c_.qk_norm == QkNorm::kRows) {
    norm_rows(w.query_norm, q, q, c_.q_width(), row_begin, row_end);
    norm_rows(w.key_norm, k, k, c_.kv_width(), row_begin, row_end);
  }
}

void ForwardPass::rotate(int32_t rope, int32_t row_begin, int32_t row_end) {
  kernels::RopeArgs args{.x = floats(s_.q),
                         .x_stride = c_.q_width(),
                         .num_heads = c_.num_heads,
                         .head_dim = c_.head_dim,
                         .half = s_.ropes[static_cast<size_t>(rope)].half(),
                         .cos = angles(s_.cos, rope),
                         .sin = angles(s_.sin, rope)};
  kernels_.rope(args, row_begin, row_end);
  args.x = floats(s_.k);
  args.x_stride = c_.kv_width();
  args.num_heads = c_.num_kv_heads;
  kernels_.rope(args, row_begin, row_end);
}

/// Encodes the pages that this batch fills, before a query behind them reads them.
void ForwardPass::seal_full_pages(int32_t layer) {
  const KvPlace place = places_[static_cast<size_t>(layer)];
  const std::vector<PageSeal>& seals = seals_[static_cast<size_t>(place.group)];
  if (seals.empty()) return;
  const StepTimer timer = timed(Step::kSeal);
  const auto count = static_cast<int32_t>(seals.size()) * c_.num_kv_heads;
  threads_.parallel(count, [&](int32_t i) {
    const kernels::ScopedFloatEnvironment environment;
    const PageSeal& seal = seals[static_cast<size_t>(i / c_.num_kv_heads)];
    const BatchSequence& part = batch_.sequences[static_cast<size_t>(seal.sequence)];
    const int32_t head = i % c_.num_kv_heads;
    kernels_.seal_kv({.kv = &part.groups[static_cast<size_t>(place.group)],
                      .layer = place.index,
                      .page = seal.page},
                     head, head + 1);
  });
}

/// What attention reads of the pages, and its products with queries and with weights of values.
void ForwardPass::count_attention(KvPlace place, StepTimer& timer) const {
  for (const BatchSequence& part : batch_.sequences) {
    const kernels::PagedKvView& kv = part.groups[static_cast<size_t>(place.group)];
    const kernels::KvGroupShape& shape = kv.shape;
    double read = 0.0;
    double pairs = 0.0;  // of queries and keys
    for (int32_t row = 0; row < part.num_rows; ++row) {
      const int64_t position = int64_t{part.first_position} + row;
      const int64_t keys = keys_seen(position, kv.window, kv.sinks);
      pairs += static_cast<double>(keys);
      read = std::max(read, static_cast<double>(keys));
    }
    const auto layers = static_cast<double>(shape.num_layers);
    const auto page = static_cast<double>(shape.sealed_page_bytes());  // as codes, if it has them
    timer.add_work(read * page / layers / kernels::kPageSlots,
                   pairs * 4.0 * static_cast<double>(c_.q_width()));
  }
}

void ForwardPass::attend(int32_t layer) {
  const KvPlace place = places_[static_cast<size_t>(layer)];
  StepTimer timer = timed(Step::kAttend);
  if (timer.is_on()) count_attention(place, timer);
  const AttentionPlan& plan = plans_[static_cast<size_t>(place.group)];
  const std::vector<kernels::AttentionArgs> args = attention_args(place);
  const int64_t group_floats =
      int64_t{c_.num_heads / c_.num_kv_heads} * kernels::attention_partial_floats(c_.head_dim);
  float* partials = partials_for(plan.num_partials * group_floats);
  threads_.parallel(static_cast<int32_t>(plan.tasks.size()), [&](int32_t i) {
    const kernels::ScopedFloatEnvironment environment;
    const AttentionTask& task = plan.tasks[static_cast<size_t>(i)];
    const kernels::AttentionArgs& a = args[static_cast<size_t>(task.sequence)];
    if (task.split < 0) {
      kernels_.attention(a, task.kv_head, task.row_begin, task.row_end);
    } else {
      kernels_.attention_split(a, task.kv_head, task.row_begin, task.row_end, task.split,
                               partials + task.partial * group_floats);
    }
  });
  const auto merge_one = [&](int32_t i) {
    const kernels::ScopedFloatEnvironment environment;
    const AttentionMerge& merge = plan.merges[static_cast<size_t>(i)];
    kernels_.attention_merge(args[static_cast<size_t>(merge.sequence)], merge.kv_head, merge.row,
                             merge.num_splits, partials + merge.partial * group_floats,
                             merge.split_stride * group_floats);
  };
  const auto merges = static_cast<int32_t>(plan.merges.size());
  if (merges > kMergesAlone) {
    threads_.parallel(merges, merge_one);
  } else {
    for (int32_t i = 0; i < merges; ++i) merge_one(i);
  }
}

/// One for each sequence of the batch.
std::vector<kernels::AttentionArgs> ForwardPass::attention_args(KvPlace place) {
  std::vector<kernels::AttentionArgs> args;
  int64_t row = 0;
  for (size_t i = 0; i < batch_.sequences.size(); ++i) {
    const BatchSequence& part = batch_.sequences[i];
    const kernels::PagedKvView* kv = batch_.stream != nullptr
                                         ? &batch_.stream->view(static_cast<int32_t>(i))
                                         : &part.groups[static_cast<size_t>(place.group)];
    args.push_back({.kv = kv,
                    .layer = place.index,
                    .first_position = part.first_position,
                    .num_heads = c_.num_heads,
                    .scale = c_.attention_scale,
                    .q = floats(s_.q) + row * c_.q_width(),
                    .q_stride = c_.q_width(),
                    .out = s_.attended.f32() + row * c_.q_width(),
                    .out_stride = c_.q_width(),
                    .soft_cap = c_.attention_soft_cap});
    row += part.num_rows;
  }
  return args;
}

float* ForwardPass::partials_for(int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  if (s_.partials.size() < bytes) {
    Result<HugeBuffer> grown = HugeBuffer::allocate(bytes * 2);
    QUIRE_CHECK(grown.ok(), "no address space for a few attention partials");
    s_.partials = std::move(*grown);
  }
  return floats(s_.partials);
}

}  // namespace quire::model
