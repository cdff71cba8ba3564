// gguf_export.cc: the plan of a GGUF file from a Hugging Face folder.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "base/check.h"
#include "base/file_system.h"
#include "formats/printable.h"
#include "model/architecture.h"
#include "model/gguf_plan.h"
#include "model/rope.h"
#include "model/tensor_names.h"

namespace quire::model {
namespace {

using formats::GgufWriter;
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

/// The parts of a layer that are written; a layer's other roles belong to models refused below.
bool is_written(TensorRole role) {
  switch (role) {
    case TensorRole::kQueryKeyValue:
    case TensorRole::kGateUp:
    case TensorRole::kRouter:
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
    case TensorRole::kExpertDown:
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp:
    case TensorRole::kSharedDown:
    case TensorRole::kSharedSwitch:
      return false;
    default:
      return true;
  }
}

/// What the keys below cannot say is refused: the file would describe another model.
Result<void> check_writable(const DescribedModel& model) {
  const ModelConfig& c = model.config;
  const auto fused = [](const TensorName& name) {
    return name.role == TensorRole::kQueryKeyValue || name.role == TensorRole::kGateUp;
  };
  const auto beyond_keys = [](const RopeConfig& rope) {
    return rope.scaling == RopeScaling::kYarn || rope.scaling == RopeScaling::kLongRope;
  };
  const bool usual = c.norm == NormKind::kRms && is_gated(c.activation) && c.pre_norms &&
                     c.residual == Residual::kSequential && c.experts.count == 0 &&
                     c.residual_scale == 1.0f && c.logit_scale == 1.0f &&
                     c.attention_soft_cap == 0.0f && c.logit_soft_cap == 0.0f;
  if (usual && std::ranges::none_of(model.architecture->layer_tensors, fused) &&
      std::ranges::none_of(c.ropes, beyond_keys)) {
    return {};
  }
  return Error{ErrorCode::kUnsupported,
               fmt::format("a folder of this kind of {} is not written as GGUF yet; give a GGUF "
                           "file instead",
                           model.architecture->name)};
}

/// Of GGUF's interleaved row r, the row in halves: pairs (i, i + half) lie side by side in GGUF.
int64_t row_in_halves(int64_t row, int64_t head_dim) {
  const int64_t within = row % head_dim;
  return row - within + within % 2 * (head_dim / 2) + within / 2;
}

/// Collects the tensors under their GGUF names.
class TensorCollector {
 public:
  TensorCollector(const formats::ModelFiles& files, const DescribedModel& model)
      : files_(files),
        config_(model.config),
        architecture_(*model.architecture),
        names_(files, *model.architecture) {}

  Result<std::vector<GgufTensor>> collect() {
    QUIRE_TRY_VOID(add(names_.embedding(), "token_embd", Kind::kMatrix));
    QUIRE_TRY_VOID(add(names_.output_norm(), "output_norm", Kind::kNorm));
    if (!config_.tied_head) QUIRE_TRY_VOID(add(names_.head(), "output", Kind::kMatrix));
    for (int32_t i = 0; i < config_.num_layers; ++i) {
      for (const TensorName& name : architecture_.layer_tensors) {
        if (!is_written(name.role) || is_absent(name.role)) continue;
        QUIRE_TRY_VOID(add(names_.in_layer(name, i), fmt::format("blk.{}.{}", i, name.gguf),
                           kind_of(name.role)));
      }
    }
    QUIRE_TRY_VOID(refuse_strangers());
    return std::move(tensors_);
  }

 private:
  enum class Kind : uint8_t { kMatrix, kRotated, kNorm };
  static Kind kind_of(TensorRole role) {
    if (is_norm(role)) return Kind::kNorm;
    const bool rotated = role == TensorRole::kQuery || role == TensorRole::kKey;
    return rotated ? Kind::kRotated : Kind::kMatrix;
  }
  /// One list of tensors may serve several families, not all of which norm q and k.
  bool is_absent(TensorRole role) const {
    const bool norms_qk = role == TensorRole::kQueryNorm || role == TensorRole::kKeyNorm;
    return norms_qk && config_.qk_norm == QkNorm::kNone;
  }

  Result<void> add(const std::string& base, const std::string& gguf_base, Kind kind) {
    const std::string name = base + ".weight";
    const TensorInfo* source = files_.find(name);
    if (source == nullptr) {
      return Error{ErrorCode::kBadFile,
                   fmt::format("tensor {} is missing from {}", name, files_.path())};
    }
    GgufTensor tensor{
        .name = gguf_base + ".weight", .shape = source->shape, .sources = {source}, .values = {}};
    if (kind == Kind::kNorm && architecture_.hf_norms_omit_one) tensor.add = 1.0f;
    if (kind == Kind::kRotated && architecture_.gguf_permutes_qk) {
      const int64_t head_dim = config_.head_dim;
      tensor.source_row = [head_dim](int64_t row) { return row_in_halves(row, head_dim); };
    }
    used_.insert(source->name);
    tensors_.push_back(std::move(tensor));
    return {};
  }

  /// What has no name in GGUF would be lost.
  Result<void> refuse_strangers() const {
    for (const TensorInfo& tensor : files_.tensors()) {
      if (used_.contains(tensor.name) || names_.may_ignore(tensor.name, config_.tied_head)) {
        continue;
      }
      if (tensor.name.ends_with(".bias")) {
        return Error{ErrorCode::kUnsupported,
                     fmt::format("tensor {}: biases of a folder are not written as GGUF yet; give "
                                 "a GGUF file instead",
                                 formats::printable(tensor.name))};
      }
      return Error{ErrorCode::kUnsupported,
                   fmt::format("tensor {} has no place in architecture {} as Quire knows it",
                               formats::printable(tensor.name), architecture_.name)};
    }
    return {};
  }

  const formats::ModelFiles& files_;
  const ModelConfig& config_;
  const Architecture& architecture_;
  const TensorNames names_;
  std::set<std::string_view> used_;
  std::vector<GgufTensor> tensors_;
};

uint32_t u32(int64_t value) {
  return static_cast<uint32_t>(value);
}

void set_keys(const ModelConfig& c, const std::string& folder, GgufWriter& writer) {
  const auto key = [&](std::string_view rest) {
    return fmt::format("{}.{}", c.architecture, rest);
  };
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  const std::filesystem::path name =
      path.has_filename() ? path.filename() : path.parent_path().filename();
  writer.set_string("general.architecture", c.architecture);
  writer.set_string("general.type", "model");
  writer.set_string("general.name", formats::printable(name.string()));
  writer.set_u32(key("vocab_size"), u32(c.vocab));
  writer.set_u32(key("context_length"), u32(c.context));
  writer.set_u32(key("embedding_length"), u32(c.hidden));
  writer.set_u32(key("block_count"), u32(c.num_layers));
  writer.set_u32(key("feed_forward_length"), u32(c.ffn));
  writer.set_u32(key("attention.head_count"), u32(c.num_heads));
  writer.set_u32(key("attention.head_count_kv"), u32(c.num_kv_heads));
  writer.set_u32(key("attention.key_length"), u32(c.head_dim));
  writer.set_u32(key("attention.value_length"), u32(c.head_dim));
  writer.set_f32(key("attention.layer_norm_rms_epsilon"), c.norm_eps);
  const auto window = std::ranges::max_element(c.layers, {}, &LayerConfig::window_tokens);
  if (window != c.layers.end() && window->window_tokens > 0) {
    writer.set_u32(key("attention.sliding_window"), u32(window->window_tokens));
  }
}

void set_rope(const ModelConfig& c, GgufWriter& writer) {
  const auto key = [&](std::string_view rest) {
    return fmt::format("{}.rope.{}", c.architecture, rest);
  };
  const RopeConfig& rope = c.ropes.front();
  writer.set_u32(key("dimension_count"), u32(rope.dims));
  writer.set_f32(key("freq_base"), static_cast<float>(rope.theta));
  if (rope.scaling == RopeScaling::kLinear) {
    writer.set_string(key("scaling.type"), "linear");
    writer.set_f32(key("scaling.factor"), static_cast<float>(rope.factor));
  }
}

/// Llama 3's scaling has no key: GGUF holds what each frequency is divided by.
std::optional<GgufTensor> rope_divisors(const RopeConfig& rope) {
  if (rope.scaling != RopeScaling::kLlama3) return std::nullopt;
  RopeConfig plain = rope;
  plain.scaling = RopeScaling::kNone;
  const Rope unscaled(plain, 0);
  const Rope scaled(rope, 0);
  GgufTensor tensor{.name = "rope_freqs.weight", .shape = {unscaled.half()}, .values = {}};
  for (size_t i = 0; i < scaled.frequencies().size(); ++i) {
    tensor.values.push_back(
        static_cast<float>(unscaled.frequencies()[i] / scaled.frequencies()[i]));
  }
  return tensor;
}

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

/// Whether two rotations turn every pair by the same angle, up to f32.
bool same_rotation(const RopeConfig& a, const RopeConfig& b) {
  const Rope left(a, 0);
  const Rope right(b, 0);
  return near(a.magnitude, b.magnitude) &&
         std::ranges::equal(left.frequencies(), right.frequencies(), near);
}

/// What the keys, read back, say otherwise than config.json; "" if nothing.
std::string difference(const ModelConfig& wanted, const ModelConfig& got) {
  const auto numbers = [](const ModelConfig& c) {
    return std::array<int64_t, 8>{
        c.num_layers,   c.hidden,   c.ffn,     c.num_heads,
        c.num_kv_heads, c.head_dim, c.context, static_cast<int64_t>(c.activation)};
  };
  if (numbers(wanted) != numbers(got)) return "its sizes";
  if (wanted.norm_eps != got.norm_eps) return "the epsilon of its norms";
  if (!near(wanted.attention_scale, got.attention_scale)) return "the scale of its attention";
  if (!near(wanted.embedding_scale, got.embedding_scale)) return "the scale of its embeddings";
  const auto same_layer = [](const LayerConfig& a, const LayerConfig& b) {
    return a.window_tokens == b.window_tokens && a.rope == b.rope;
  };
  if (!std::ranges::equal(wanted.layers, got.layers, same_layer))
    return "the windows of its layers";
  if (!std::ranges::equal(wanted.ropes, got.ropes, same_rotation)) return "its rotation (RoPE)";
  return "";
}

/// The one file is a header in memory.
class HeaderFile final : public FileSystem {
 public:
  explicit HeaderFile(std::string header) : header_(std::move(header)) {}

  Result<std::unique_ptr<MappedFile>> map(const std::string&) override {
    return std::unique_ptr<MappedFile>(std::make_unique<View>(header_));
  }
  Result<std::string> read(const std::string&, uint64_t) override { return header_; }
  Result<void> write_atomically(const std::string& path, std::string_view) override {
    return Error{ErrorCode::kIo, fmt::format("{} is not written", path)};
  }
  bool is_file(const std::string&) override { return true; }
  bool is_directory(const std::string&) override { return false; }
  Result<std::vector<std::string>> list(const std::string&) override {
    return std::vector<std::string>();
  }

 private:
  class View final : public MappedFile {
   public:
    explicit View(std::string_view text) : text_(text) {}
    std::span<const std::byte> bytes() const override { return std::as_bytes(std::span(text_)); }
    void release(uint64_t, uint64_t) override {}

   private:
    std::string_view text_;
  };
  std::string header_;
};

}  // namespace

Result<GgufPlan> plan_from_folder(const formats::ModelFiles& files) {
  QUIRE_CHECK(files.gguf() == nullptr, "the files are a folder");
  QUIRE_TRY(const DescribedModel model, describe(files));
  QUIRE_TRY_VOID(check_writable(model));
  GgufPlan plan;
  set_keys(model.config, files.path(), plan.writer);
  if (!model.config.ropes.empty()) set_rope(model.config, plan.writer);
  QUIRE_TRY(plan.tensors, TensorCollector(files, model).collect());
  if (!model.config.ropes.empty()) {
    if (auto divisors = rope_divisors(model.config.ropes.front())) {
      plan.tensors.push_back(std::move(*divisors));
    }
  }
  plan.has_head = !model.config.tied_head;
  plan.vocab = model.config.vocab;
  return plan;
}

Result<void> check_same_model(const formats::ModelFiles& folder, const GgufPlan& plan) {
  QUIRE_TRY(const DescribedModel wanted, describe(folder));
  HeaderFile header(plan.writer.header());
  QUIRE_TRY(
      const formats::ModelFiles written,
      formats::ModelFiles::open(header, "the new file's header", formats::OpenMode::kMetadataOnly));
  QUIRE_TRY(DescribedModel got, describe(written));
  const auto divisors = std::ranges::find(plan.tensors, "rope_freqs.weight", &GgufTensor::name);
  if (divisors != plan.tensors.end() && !got.config.ropes.empty()) {
    got.config.ropes.front().divisors = divisors->values;
  }
  const std::string what = difference(wanted.config, got.config);
  if (what.empty()) return {};
  return Error{ErrorCode::kUnsupported,
               fmt::format("a GGUF file of architecture {} cannot say {} as config.json does, so "
                           "none is written",
                           wanted.architecture->name, what)};
}

}  // namespace quire::model
