// gguf_tensors.cc: which tensors of a Hugging Face folder a GGUF file holds, and in which order of
// rows.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "formats/printable.h"
#include "model/architecture.h"
#include "model/gguf_tensors.h"
#include "model/tensor_names.h"

namespace quire::model {
namespace {

using formats::TensorInfo;

bool is_norm(TensorRole role) {
  switch (role) {
    case TensorRole::kAttentionNorm:
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
    case TensorRole::kPostAttentionNorm:
    case TensorRole::kFfnNorm:
    case TensorRole::kPostFfnNorm:
      return true;
    default:
      return false;
  }
}

/// Of GGUF's interleaved row r, the row in halves: pairs (i, i + half) lie side by side in GGUF.
int64_t row_in_halves(int64_t row, int64_t head_dim) {
  const int64_t within = row % head_dim;
  return row - within + within % 2 * (head_dim / 2) + within / 2;
}

/// Of row r of q, k, v one after the other, the row where each kv head has its group of query
/// heads, its key head and its value head together.
int64_t row_by_kv_head(int64_t row, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  const int64_t group = heads / kv_heads;
  const int64_t head = row / head_dim;
  const bool is_query = head < heads;
  const int64_t kv_head = is_query ? head / group : (head - heads) % kv_heads;
  const int64_t part = is_query ? head % group : group + (head - heads) / kv_heads;
  return (kv_head * (group + 2) + part) * head_dim + row % head_dim;
}

/// Collects the tensors under their GGUF names.
class TensorCollector {
 public:
  TensorCollector(const formats::ModelFiles& files, const DescribedModel& model)
      : files_(files),
        c_(model.config),
        architecture_(*model.architecture),
        names_(files, *model.architecture) {}

  Result<std::vector<GgufTensor>> collect() {
    QUIRE_TRY_VOID(add_top(names_.embedding(), "token_embd"));
    if (c_.learned_positions) QUIRE_TRY_VOID(add_top(names_.positions(), "position_embd"));
    QUIRE_TRY_VOID(add_top(names_.output_norm(), "output_norm", norm_offset()));
    if (!c_.tied_head) QUIRE_TRY_VOID(add_top(names_.head(), "output"));
    for (int32_t i = 0; i < c_.num_layers; ++i) QUIRE_TRY_VOID(add_layer(i));
    QUIRE_TRY_VOID(refuse_strangers());
    return std::move(tensors_);
  }

 private:
  const TensorInfo* take(const std::string& name) {
    const TensorInfo* source = files_.find(name);
    if (source != nullptr) used_.insert(source->name);
    return source;
  }

  /// What stands once: a weight, and the bias beside it if there is one.
  Result<void> add_top(const std::string& name, std::string_view gguf, float add = 0.0f) {
    const TensorInfo* weight = take(name + ".weight");
    if (weight == nullptr) {
      return Error{ErrorCode::kBadFile,
                   fmt::format("tensor {}.weight is missing from {}", name, files_.path())};
    }
    tensors_.push_back({.name = fmt::format("{}.weight", gguf),
                        .shape = weight->shape,
                        .sources = {weight},
                        .add = add,
                        .values = {}});
    if (const TensorInfo* bias = take(name + ".bias")) {
      tensors_.push_back({.name = fmt::format("{}.bias", gguf),
                          .shape = bias->shape,
                          .sources = {bias},
                          .values = {}});
    }
    return {};
  }

  float norm_offset() const { return architecture_.hf_norms_omit_one ? 1.0f : 0.0f; }

  /// Of several names for one role, the first that the folder has.
  Result<void> add_layer(int32_t layer) {
    const size_t before = tensors_.size();
    std::set<TensorRole> done;
    for (const TensorName& name : architecture_.layer_tensors) {
      if (done.contains(name.role)) continue;
      QUIRE_TRY(const bool found, names_.has_one_per_expert(name)
                                      ? Result<bool>(add_experts(name, layer))
                                      : add_pair(name, layer));
      if (found) done.insert(name.role);
    }
    if (tensors_.size() > before) return {};
    return Error{ErrorCode::kBadFile,
                 fmt::format("the tensors of layer {} are missing from {}", layer, files_.path())};
  }

  /// A tensor and the bias beside it.
  Result<bool> add_pair(const TensorName& name, int32_t layer) {
    const std::string hf = names_.in_layer(name, layer);
    for (const char* end : {".weight", ".bias"}) {
      const TensorInfo* source = take(hf + end);
      if (source == nullptr) continue;
      GgufTensor tensor{.name = fmt::format("blk.{}.{}{}", layer, name.gguf, end),
                        .shape = source->shape,
                        .sources = {source},
                        .source_row = rows_of(name),
                        .values = {}};
      if (tensor.source_row && source->shape.front() != rows_wanted(name.role)) {
        return Error{ErrorCode::kBadFile,
                     fmt::format("tensor {}{} has {} rows, but the model's numbers ask for {}", hf,
                                 end, source->shape.front(), rows_wanted(name.role))};
      }
      const bool is_weight = std::string_view(end) == ".weight";
      if (is_weight && is_norm(name.role)) tensor.add = norm_offset();
      if (is_weight && name.hf_order == HfOrder::kTransposed) {
        std::ranges::reverse(tensor.shape);
        tensor.transposed = true;
      }
      tensors_.push_back(std::move(tensor));
    }
    return files_.find(hf + ".weight") != nullptr;
  }

  /// One tensor of three dimensions from those of all experts.
  bool add_experts(const TensorName& name, int32_t layer) {
    GgufTensor tensor{.name = fmt::format("blk.{}.{}.weight", layer, name.gguf), .values = {}};
    for (int32_t i = 0; i < c_.experts.count; ++i) {
      const TensorInfo* source = take(names_.in_layer(name, layer, i) + ".weight");
      if (source == nullptr) return false;
      tensor.sources.push_back(source);
    }
    if (tensor.sources.empty()) return false;
    tensor.shape = tensor.sources.front()->shape;
    for (const TensorInfo* source : tensor.sources) {
      if (source->shape != tensor.shape) return false;  // then it stays without a place
    }
    tensor.shape.insert(tensor.shape.begin(), c_.experts.count);
    tensors_.push_back(std::move(tensor));
    return true;
  }

  int64_t rows_wanted(TensorRole role) const {
    if (role == TensorRole::kQuery) return c_.q_width();
    return role == TensorRole::kKey ? c_.kv_width() : c_.q_width() + 2 * c_.kv_width();
  }

  /// The stored row for each row of GGUF's order.
  std::function<int64_t(int64_t)> rows_of(const TensorName& name) const {
    const bool rotated = name.role == TensorRole::kQuery || name.role == TensorRole::kKey;
    if (rotated && architecture_.gguf_permutes_qk) {
      return [d = int64_t{c_.head_dim}](int64_t row) { return row_in_halves(row, d); };
    }
    if (name.hf_order == HfOrder::kByKvHead) {
      return [heads = c_.num_heads, kv = c_.num_kv_heads, d = c_.head_dim](int64_t row) {
        return row_by_kv_head(row, heads, kv, d);
      };
    }
    return nullptr;
  }

  /// What has no name in GGUF would be lost.
  Result<void> refuse_strangers() const {
    for (const TensorInfo& tensor : files_.tensors()) {
      if (used_.contains(tensor.name) || names_.may_ignore(tensor.name, c_.tied_head)) continue;
      return Error{ErrorCode::kUnsupported,
                   fmt::format("tensor {} has no place in architecture {} as Quire knows it",
                               formats::printable(tensor.name), architecture_.name)};
    }
    return {};
  }

  const formats::ModelFiles& files_;
  const ModelConfig& c_;
  const Architecture& architecture_;
  const TensorNames names_;
  std::set<std::string_view> used_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace

Result<std::vector<GgufTensor>> gguf_tensors(const formats::ModelFiles& folder,
                                             const DescribedModel& model) {
  return TensorCollector(folder, model).collect();
}

}  // namespace quire::model
