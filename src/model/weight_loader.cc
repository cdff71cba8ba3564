// Reads the weights that a description names; see weights.h.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "model/tensor_names.h"
#include "model/tensor_reader.h"
#include "model/weights.h"

namespace quire::model {
namespace {

using formats::TensorInfo;
using kernels::WeightMatrix;

/// Where a head's row r stands in GGUF's interleaved order: pairs (i, i + half) lie side by side.
int64_t interleaved_row(int64_t row, int64_t head_dim) {
  const int64_t head = row / head_dim;
  const int64_t within = row % head_dim;
  const int64_t half = head_dim / 2;
  return head * head_dim + within % half * 2 + within / half;
}

enum class QkvPart : uint8_t { kQuery, kKey, kValue };

/// The rows of q, k or v inside a fused tensor.
RowMap fused_rows(const ModelConfig& c, QkvPart part, HfOrder order) {
  const int64_t d = c.head_dim;
  const int64_t q_rows = c.q_width();
  const int64_t kv_rows = c.kv_width();
  RowMap map{.rows = part == QkvPart::kQuery ? q_rows : kv_rows,
             .stored_rows = q_rows + 2 * kv_rows,
             .source = nullptr};
  if (order != HfOrder::kByKvHead) {
    const int64_t first = part == QkvPart::kQuery ? 0
                          : part == QkvPart::kKey ? q_rows
                                                  : q_rows + kv_rows;
    map.source = [first](int64_t row) { return first + row; };
    return map;
  }
  // Each kv head: its group of query heads, its key head, its value head.
  const int64_t group = c.num_heads / c.num_kv_heads;
  if (part == QkvPart::kQuery) {
    map.source = [d, group](int64_t row) {
      const int64_t head = row / d;
      return (head / group * (group + 2) + head % group) * d + row % d;
    };
    return map;
  }
  const int64_t within = part == QkvPart::kKey ? group : group + 1;
  map.source = [d, group, within](int64_t row) {
    return (row / d * (group + 2) + within) * d + row % d;
  };
  return map;
}

class Loader {
 public:
  Loader(const formats::ModelFiles& files, const DescribedModel& model,
         const LoadProgress& progress, int32_t num_threads)
      : files_(files),
        c_(model.config),
        architecture_(*model.architecture),
        names_(files, *model.architecture),
        threads_(num_threads),
        reader_(files, progress, threads_) {}

  Result<Weights> load() {
    Weights w;
    QUIRE_TRY(w.embedding, whole(names_.embedding() + ".weight", c_.vocab, c_.hidden));
    if (c_.learned_positions) {
      QUIRE_TRY(w.positions, whole(names_.positions() + ".weight", c_.context, c_.hidden));
    }
    QUIRE_TRY(w.output_norm, norm(names_.output_norm(), c_.hidden));
    if (!c_.tied_head) {
      QUIRE_TRY(w.head, whole(names_.head() + ".weight", c_.vocab, c_.hidden));
    }
    w.layers.resize(static_cast<size_t>(c_.num_layers));
    for (int32_t i = 0; i < c_.num_layers; ++i) {
      QUIRE_TRY_VOID(load_layer(w.layers[static_cast<size_t>(i)], i));
    }
    QUIRE_TRY_VOID(refuse_strangers());
    return w;
  }

 private:
  bool gguf() const { return files_.gguf() != nullptr; }

  Result<WeightMatrix> whole(const std::string& name, int64_t rows, int64_t cols) {
    QUIRE_TRY(WeightMatrix matrix, reader_.matrix(name, all_rows(rows), cols));
    QUIRE_TRY_VOID(reader_.done(name));
    return matrix;
  }

  Result<NormWeights> norm(const std::string& name, int64_t count) {
    NormWeights n;
    QUIRE_TRY(n.weight, reader_.vector(name + ".weight", all_rows(count)));
    if (!gguf() && architecture_.hf_norms_omit_one) {
      for (float& value : n.weight) value += 1.0f;
    }
    QUIRE_TRY_VOID(reader_.done(name + ".weight"));
    if (c_.norm == NormKind::kRms) return n;
    QUIRE_TRY(n.bias, reader_.vector(name + ".bias", all_rows(count)));
    QUIRE_TRY_VOID(reader_.done(name + ".bias"));
    return n;
  }

  /// Biases stand in all layers or in none: the first layer decides.
  bool has_bias(const TensorName& tensor) const {
    if (tensor.bias != Bias::kIfPresent) return tensor.bias == Bias::kAlways;
    return reader_.has(names_.in_layer(tensor, 0) + ".bias");
  }

  /// Rows of a matrix and of the bias beside it.
  Result<Linear> rows_of(const TensorName& tensor, const std::string& name, const RowMap& map,
                         int64_t cols) {
    Linear linear;
    const bool transposed = !gguf() && tensor.hf_order == HfOrder::kTransposed;
    QUIRE_TRY(linear.matrix, transposed ? reader_.transposed(name + ".weight", map, cols)
                                        : reader_.matrix(name + ".weight", map, cols));
    if (has_bias(tensor)) {
      QUIRE_TRY(linear.bias, reader_.vector(name + ".bias", map));
    }
    return linear;
  }

  Result<void> done(const std::string& name) {
    QUIRE_TRY_VOID(reader_.done(name + ".weight"));
    return reader_.done(name + ".bias");
  }

  Result<Linear> linear(const TensorName& tensor, const std::string& name, const RowMap& map,
                        int64_t cols) {
    QUIRE_TRY(Linear loaded, rows_of(tensor, name, map, cols));
    QUIRE_TRY_VOID(done(name));
    return loaded;
  }

  /// q or k: rows in half-split order, whatever the file has.
  RowMap rotated_rows(int64_t rows) const {
    RowMap map = all_rows(rows);
    if (gguf() && architecture_.gguf_permutes_qk) {
      map.source = [d = int64_t{c_.head_dim}](int64_t row) { return interleaved_row(row, d); };
    }
    return map;
  }

  Result<void> load_query_key_value(LayerWeights& layer, const TensorName& tensor,
                                    const std::string& name) {
    const HfOrder order = gguf() ? HfOrder::kSame : tensor.hf_order;
    const auto part = [&](QkvPart which) {
      return rows_of(tensor, name, fused_rows(c_, which, order), c_.hidden);
    };
    QUIRE_TRY(layer.query, part(QkvPart::kQuery));
    QUIRE_TRY(layer.key, part(QkvPart::kKey));
    QUIRE_TRY(layer.value, part(QkvPart::kValue));
    return done(name);
  }

  Result<void> load_gate_up(FfnWeights& ffn, const TensorName& tensor, const std::string& name) {
    const auto half = [&](int64_t first) {
      return rows_of(tensor, name,
                     {.rows = c_.ffn,
                      .stored_rows = 2 * int64_t{c_.ffn},
                      .source = [first](int64_t row) { return first + row; }},
                     c_.hidden);
    };
    QUIRE_TRY(ffn.gate, half(0));
    QUIRE_TRY(ffn.up, half(c_.ffn));
    return done(name);
  }

  /// One matrix of every expert, from tensors of their own or from one of three dimensions.
  Result<void> load_experts(ExpertWeights& e, Linear FfnWeights::*which, const TensorName& tensor,
                            int32_t layer, int64_t rows, int64_t cols) {
    const int32_t count = c_.experts.count;
    e.experts.resize(static_cast<size_t>(count));
    const bool one_each = names_.has_one_per_expert(tensor);
    const std::string joint = names_.in_layer(tensor, layer) + ".weight";
    for (int32_t i = 0; i < count; ++i) {
      Linear& into = e.experts[static_cast<size_t>(i)].*which;
      if (one_each) {
        QUIRE_TRY(into.matrix, whole(names_.in_layer(tensor, layer, i) + ".weight", rows, cols));
      } else {
        QUIRE_TRY(into.matrix, reader_.part(joint, i, count, rows, cols));
      }
    }
    return one_each ? Result<void>() : reader_.done(joint);
  }

  /// Whether a layer of this model has a tensor of that role at all.
  bool wanted(TensorRole role, const LayerConfig& layer) const {
    switch (role) {
      case TensorRole::kAttentionNorm:
        return c_.pre_norms;
      case TensorRole::kFfnNorm:
        return c_.pre_norms && c_.residual != Residual::kParallelOneNorm;
      case TensorRole::kPostAttentionNorm:
      case TensorRole::kPostFfnNorm:
        return c_.post_norms;
      case TensorRole::kQueryNorm:
      case TensorRole::kKeyNorm:
        return c_.qk_norm != QkNorm::kNone;
      case TensorRole::kGate:
      case TensorRole::kUp:
      case TensorRole::kGateUp:
      case TensorRole::kDown:
        return !layer.experts;
      case TensorRole::kRouter:
      case TensorRole::kExpertGate:
      case TensorRole::kExpertUp:
      case TensorRole::kExpertDown:
        return layer.experts;
      case TensorRole::kSharedGate:
      case TensorRole::kSharedUp:
      case TensorRole::kSharedDown:
      case TensorRole::kSharedSwitch:
        return layer.experts && c_.experts.shared_ffn > 0;
      default:
        return true;
    }
  }

  /// Of several names for one role, the first that the file has; else the first of all.
  const TensorName& choose(TensorRole role, int32_t layer) const {
    const TensorName* first = nullptr;
    for (const TensorName& name : architecture_.layer_tensors) {
      if (name.role != role) continue;
      if (reader_.has(names_.in_layer(name, layer) + ".weight")) return name;
      if (first == nullptr) first = &name;
    }
    return *first;
  }

  Result<void> load_layer(LayerWeights& layer, int32_t index) {
    std::set<TensorRole> seen;
    for (const TensorName& name : architecture_.layer_tensors) {
      if (!seen.insert(name.role).second) continue;
      if (!wanted(name.role, c_.layers[static_cast<size_t>(index)])) continue;
      QUIRE_TRY_VOID(load_into(layer, choose(name.role, index), index));
    }
    if (c_.residual == Residual::kParallelOneNorm) layer.ffn_norm = layer.attention_norm;
    return {};
  }

  int64_t qk_norm_size(int64_t width) const {
    return c_.qk_norm == QkNorm::kHeads ? c_.head_dim : width;
  }

  Result<void> load_into(LayerWeights& layer, const TensorName& tensor, int32_t index) {
    const std::string name = names_.in_layer(tensor, index);
    const auto keep = [](auto& into, auto got) -> Result<void> {
      QUIRE_TRY(into, std::move(got));
      return {};
    };
    const auto plain = [&](int64_t rows, int64_t cols) {
      return linear(tensor, name, all_rows(rows), cols);
    };
    const int64_t hidden = c_.hidden;
    const int64_t expert_ffn = c_.experts.ffn;
    const int64_t shared_ffn = c_.experts.shared_ffn;
    ExpertWeights& e = layer.experts;
    switch (tensor.role) {
      case TensorRole::kAttentionNorm:
        return keep(layer.attention_norm, norm(name, hidden));
      case TensorRole::kQuery:
        return keep(layer.query, linear(tensor, name, rotated_rows(c_.q_width()), hidden));
      case TensorRole::kKey:
        return keep(layer.key, linear(tensor, name, rotated_rows(c_.kv_width()), hidden));
      case TensorRole::kValue:
        return keep(layer.value, plain(c_.kv_width(), hidden));
      case TensorRole::kQueryKeyValue:
        return load_query_key_value(layer, tensor, name);
      case TensorRole::kQueryNorm:
        return keep(layer.query_norm, norm(name, qk_norm_size(c_.q_width())));
      case TensorRole::kKeyNorm:
        return keep(layer.key_norm, norm(name, qk_norm_size(c_.kv_width())));
      case TensorRole::kAttentionOut:
        return keep(layer.attention_out, plain(hidden, c_.q_width()));
      case TensorRole::kPostAttentionNorm:
        return keep(layer.post_attention_norm, norm(name, hidden));
      case TensorRole::kFfnNorm:
        return keep(layer.ffn_norm, norm(name, hidden));
      case TensorRole::kGate:
        return keep(layer.ffn.gate, plain(c_.ffn, hidden));
      case TensorRole::kUp:
        return keep(layer.ffn.up, plain(c_.ffn, hidden));
      case TensorRole::kGateUp:
        return load_gate_up(layer.ffn, tensor, name);
      case TensorRole::kDown:
        return keep(layer.ffn.down, plain(hidden, c_.ffn));
      case TensorRole::kPostFfnNorm:
        return keep(layer.post_ffn_norm, norm(name, hidden));
      case TensorRole::kRouter:
        return keep(e.router, whole(name + ".weight", c_.experts.count, hidden));
      case TensorRole::kExpertGate:
        return load_experts(e, &FfnWeights::gate, tensor, index, expert_ffn, hidden);
      case TensorRole::kExpertUp:
        return load_experts(e, &FfnWeights::up, tensor, index, expert_ffn, hidden);
      case TensorRole::kExpertDown:
        return load_experts(e, &FfnWeights::down, tensor, index, hidden, expert_ffn);
      case TensorRole::kSharedGate:
        return keep(e.shared.gate, plain(shared_ffn, hidden));
      case TensorRole::kSharedUp:
        return keep(e.shared.up, plain(shared_ffn, hidden));
      case TensorRole::kSharedDown:
        return keep(e.shared.down, plain(hidden, shared_ffn));
      case TensorRole::kSharedSwitch:
        QUIRE_TRY(e.shared_switch, reader_.one_row(name + ".weight", hidden));
        return reader_.done(name + ".weight");
    }
    QUIRE_CHECK(false, "a role that no case names");
  }

  /// A tensor that nobody asked for would change the results if it meant something: a bias, say.
  Result<void> refuse_strangers() {
    for (const TensorInfo& tensor : files_.tensors()) {
      if (reader_.was_read(tensor.name) || names_.may_ignore(tensor.name, c_.tied_head)) continue;
      return Error{ErrorCode::kUnsupported,
                   fmt::format("tensor {} has no place in architecture {} as Quire knows it",
                               tensor.name, architecture_.name)};
    }
    return {};
  }

  const formats::ModelFiles& files_;
  const ModelConfig& c_;
  const Architecture& architecture_;
  const TensorNames names_;
  ThreadPool threads_;
  TensorReader reader_;
};

}  // namespace

Result<Weights> load_weights(const formats::ModelFiles& files, const DescribedModel& model,
                             const LoadProgress& progress, int32_t num_threads) {
  return Loader(files, model, progress, num_threads).load();
}

}  // namespace quire::model
