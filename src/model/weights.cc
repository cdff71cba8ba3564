#include "model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "model/float_tensor.h"
#include "model/tensor_names.h"

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

class Loader {
 public:
  Loader(const formats::ModelFiles& files, const DescribedModel& model,
         const LoadProgress& progress)
      : files_(files),
        config_(model.config),
        architecture_(*model.architecture),
        names_(files, *model.architecture),
        progress_(progress) {}

  Result<Weights> load() {
    Weights w;
    QUIRE_TRY(w.embedding, matrix(names_.embedding(), config_.vocab, config_.hidden));
    QUIRE_TRY(w.output_norm, norm(names_.output_norm(), config_.hidden));
    if (!config_.tied_head) {
      QUIRE_TRY(w.head, matrix(names_.head(), config_.vocab, config_.hidden));
    }
    w.layers.resize(static_cast<size_t>(config_.num_layers));
    for (int32_t i = 0; i < config_.num_layers; ++i) {
      for (const TensorName& name : architecture_.layer_tensors) {
        QUIRE_TRY_VOID(load_into(w.layers[static_cast<size_t>(i)], name, i));
      }
    }
    QUIRE_TRY_VOID(refuse_strangers());
    return w;
  }

 private:
  Result<const TensorInfo*> find(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorInfo* tensor = files_.find(name);
    if (tensor == nullptr) {
      return Error{ErrorCode::kBadFile,
                   fmt::format("tensor {} is missing from {}", name, files_.path())};
    }
    if (tensor->shape != shape) {
      return Error{ErrorCode::kBadFile,
                   fmt::format("tensor {} has shape [{}], but the model's numbers ask for [{}]",
                               name, fmt::join(tensor->shape, ", "), fmt::join(shape, ", "))};
    }
    used_.insert(tensor->name);
    return tensor;
  }

  Result<void> done(const TensorInfo& tensor) {
    files_.release(tensor);
    bytes_done_ += tensor.num_bytes;
    const double share =
        static_cast<double>(bytes_done_) / static_cast<double>(files_.total_bytes());
    if (progress_ && !progress_(share)) {
      return Error{ErrorCode::kInterrupted, "loading was interrupted"};
    }
    return {};
  }

  Result<WeightMatrix> matrix(const std::string& name, int64_t rows, int64_t cols,
                              std::function<int64_t(int64_t)> source_row = nullptr) {
    QUIRE_TRY(const TensorInfo* tensor, find(name, {rows, cols}));
    QUIRE_TRY(const ElementType type, formats::readable_type(*tensor));
    if (cols % info(type).block_elements != 0) {
      return Error{ErrorCode::kBadFile, fmt::format("tensor {}: rows of {} are no whole {} blocks",
                                                    name, cols, info(type).name)};
    }
    QUIRE_TRY(WeightMatrix packed, WeightMatrix::pack({.type = type,
                                                       .rows = rows,
                                                       .cols = cols,
                                                       .stored = tensor->bytes,
                                                       .source_row = std::move(source_row)}));
    QUIRE_TRY_VOID(done(*tensor));
    return packed;
  }

  /// q or k: rows in half-split order, whatever the file has.
  Result<WeightMatrix> rotated(const std::string& name, int64_t rows) {
    if (files_.gguf() == nullptr || !architecture_.gguf_permutes_qk) {
      return matrix(name, rows, config_.hidden);
    }
    const int64_t head_dim = config_.head_dim;
    return matrix(name, rows, config_.hidden,
                  [head_dim](int64_t row) { return interleaved_row(row, head_dim); });
  }

  Result<std::vector<float>> norm(const std::string& name, int64_t count) {
    QUIRE_TRY(const TensorInfo* tensor, find(name, {count}));
    QUIRE_TRY(std::vector<float> values, read_floats(*tensor));
    if (files_.gguf() == nullptr && architecture_.hf_norms_omit_one) {
      for (float& value : values) value += 1.0f;
    }
    QUIRE_TRY_VOID(done(*tensor));
    return values;
  }

  Result<void> load_into(LayerWeights& layer, const TensorName& tensor, int32_t index) {
    const std::string name = names_.in_layer(tensor, index);
    const ModelConfig& c = config_;
    const auto keep_matrix = [](WeightMatrix& into, Result<WeightMatrix> got) -> Result<void> {
      QUIRE_TRY(into, std::move(got));
      return {};
    };
    const auto keep_norm = [&](std::vector<float>& into, int64_t count) -> Result<void> {
      QUIRE_TRY(into, norm(name, count));
      return {};
    };
    switch (tensor.role) {
      case TensorRole::kAttentionNorm:
        return keep_norm(layer.attention_norm, c.hidden);
      case TensorRole::kQuery:
        return keep_matrix(layer.query, rotated(name, c.q_width()));
      case TensorRole::kKey:
        return keep_matrix(layer.key, rotated(name, c.kv_width()));
      case TensorRole::kValue:
        return keep_matrix(layer.value, matrix(name, c.kv_width(), c.hidden));
      case TensorRole::kQueryNorm:
        return keep_norm(layer.query_norm, c.head_dim);
      case TensorRole::kKeyNorm:
        return keep_norm(layer.key_norm, c.head_dim);
      case TensorRole::kAttentionOut:
        return keep_matrix(layer.attention_out, matrix(name, c.hidden, c.q_width()));
      case TensorRole::kPostAttentionNorm:
        return keep_norm(layer.post_attention_norm, c.hidden);
      case TensorRole::kFfnNorm:
        return keep_norm(layer.ffn_norm, c.hidden);
      case TensorRole::kGate:
        return keep_matrix(layer.gate, matrix(name, c.ffn, c.hidden));
      case TensorRole::kUp:
        return keep_matrix(layer.up, matrix(name, c.ffn, c.hidden));
      case TensorRole::kDown:
        return keep_matrix(layer.down, matrix(name, c.hidden, c.ffn));
      case TensorRole::kPostFfnNorm:
        return keep_norm(layer.post_ffn_norm, c.hidden);
      case TensorRole::kEmbedding:
      case TensorRole::kOutputNorm:
      case TensorRole::kHead:
        break;
    }
    QUIRE_CHECK(false, "a description lists a tensor as part of a layer that is not");
  }

  /// A tensor that nobody asked for would change the results if it meant something: a bias, say.
  Result<void> refuse_strangers() {
    for (const TensorInfo& tensor : files_.tensors()) {
      if (used_.contains(tensor.name) || names_.may_ignore(tensor.name, config_.tied_head))
        continue;
      return Error{ErrorCode::kUnsupported,
                   fmt::format("tensor {} has no place in architecture {} as Quire knows it",
                               tensor.name, architecture_.name)};
    }
    return {};
  }

  const formats::ModelFiles& files_;
  const ModelConfig& config_;
  const Architecture& architecture_;
  const TensorNames names_;
  const LoadProgress& progress_;
  std::set<std::string_view> used_;
  uint64_t bytes_done_ = 0;
};

}  // namespace

int64_t Weights::bytes() const {
  const auto norm_bytes = [](const std::vector<float>& norm) {
    return static_cast<int64_t>(norm.size() * sizeof(float));
  };
  int64_t total = embedding.bytes() + head.bytes() + norm_bytes(output_norm);
  for (const LayerWeights& l : layers) {
    for (const WeightMatrix* m :
         {&l.query, &l.key, &l.value, &l.attention_out, &l.gate, &l.up, &l.down}) {
      total += m->bytes();
    }
    for (const auto* n : {&l.attention_norm, &l.query_norm, &l.key_norm, &l.post_attention_norm,
                          &l.ffn_norm, &l.post_ffn_norm}) {
      total += norm_bytes(*n);
    }
  }
  return total;
}

Result<Weights> load_weights(const formats::ModelFiles& files, const DescribedModel& model,
                             const LoadProgress& progress) {
  return Loader(files, model, progress).load();
}

int64_t count_parameters(const formats::ModelFiles& files) {
  int64_t total = 0;
  for (const TensorInfo& tensor : files.tensors()) {
    if (tensor.name != "rope_freqs.weight") total += formats::num_elements(tensor);
  }
  return total;
}

}  // namespace quire::model
