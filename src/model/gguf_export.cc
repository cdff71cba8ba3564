// gguf_export.cc: the keys of a GGUF file from a Hugging Face folder, and their proof.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "base/file_system.h"
#include "formats/printable.h"
#include "model/architecture.h"
#include "model/gguf_keys.h"
#include "model/gguf_plan.h"
#include "model/gguf_tensors.h"
#include "model/rope.h"

namespace quire::model {
namespace {

using formats::GgufWriter;

uint32_t u32(int64_t value) {
  return static_cast<uint32_t>(value);
}

/// The keys of one architecture, as ggml's docs/gguf.md and llama.cpp's gguf-py name them.
class KeyWriter {
 public:
  KeyWriter(const ModelConfig& config, GgufWriter& writer) : c_(config), writer_(writer) {}

  void set_all(const std::string& folder) {
    set_general(folder);
    set_sizes();
    set_scales();
    set_experts();
    if (!c_.ropes.empty()) set_rope(c_.ropes.front());
  }

 private:
  std::string key(std::string_view rest) const {
    return fmt::format("{}.{}", c_.architecture, rest);
  }
  void number(std::string_view rest, int64_t value) { writer_.set_u32(key(rest), u32(value)); }
  void real(std::string_view rest, double value) {
    writer_.set_f32(key(rest), static_cast<float>(value));
  }

  void set_general(const std::string& folder) {
    const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
    const std::filesystem::path name =
        path.has_filename() ? path.filename() : path.parent_path().filename();
    writer_.set_string("general.architecture", c_.architecture);
    writer_.set_string("general.type", "model");
    writer_.set_string("general.name", formats::printable(name.string()));
  }

  void set_sizes() {
    number("vocab_size", c_.vocab);
    number("context_length", c_.context);
    number("embedding_length", c_.hidden);
    number("block_count", c_.num_layers);
    number("feed_forward_length", c_.ffn);
    number("attention.head_count", c_.num_heads);
    number("attention.head_count_kv", c_.num_kv_heads);
    number("attention.key_length", c_.head_dim);
    number("attention.value_length", c_.head_dim);
    real(c_.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                   : "attention.layer_norm_epsilon",
         c_.norm_eps);
    const auto window = std::ranges::max_element(c_.layers, {}, &LayerConfig::window_tokens);
    if (window != c_.layers.end() && window->window_tokens > 0) {
      number("attention.sliding_window", window->window_tokens);
    }
  }

  void set_scales() {
    if (c_.attention_soft_cap != 0) real("attn_logit_softcapping", c_.attention_soft_cap);
    if (c_.logit_soft_cap != 0) real("final_logit_softcapping", c_.logit_soft_cap);
    if (c_.architecture != "granite") return;  // in the others they follow from the architecture
    real("embedding_scale", c_.embedding_scale);
    real("attention.scale", c_.attention_scale);
    real("residual_scale", c_.residual_scale);
    real("logit_scale", 1.0 / double{c_.logit_scale});
  }

  void set_experts() {
    const ExpertConfig& e = c_.experts;
    if (e.count == 0) return;
    number("expert_count", e.count);
    number("expert_used_count", e.per_token);
    number("expert_feed_forward_length", e.ffn);
    if (e.shared_ffn > 0) number("expert_shared_feed_forward_length", e.shared_ffn);
    if (c_.architecture != "llama") writer_.set_bool(key("expert_weights_norm"), e.renormalise);
  }

  void set_rope(const RopeConfig& rope) {
    number("rope.dimension_count", rope.dims);
    real("rope.freq_base", rope.theta);
    switch (rope.scaling) {
      case RopeScaling::kNone:
      case RopeScaling::kLlama3:  // a tensor says it: rope_tensors()
        return;
      case RopeScaling::kLinear:
        writer_.set_string(key("rope.scaling.type"), "linear");
        return real("rope.scaling.factor", rope.factor);
      case RopeScaling::kYarn:
        writer_.set_string(key("rope.scaling.type"), "yarn");
        real("rope.scaling.factor", rope.factor);
        number("rope.scaling.original_context_length", std::lround(rope.original_context));
        real("rope.scaling.yarn_beta_fast", rope.beta_fast);
        real("rope.scaling.yarn_beta_slow", rope.beta_slow);
        return real("rope.scaling.yarn_attn_factor", rope.magnitude);
      case RopeScaling::kLongRope:  // its tensors say the rest
        number("rope.scaling.original_context_length", std::lround(rope.original_context));
        return real("rope.scaling.attn_factor", rope.magnitude);
    }
  }

  const ModelConfig& c_;
  GgufWriter& writer_;
};

constexpr std::string_view kDivisors = "rope_freqs.weight";
constexpr std::string_view kShortDivisors = "rope_factors_short.weight";
constexpr std::string_view kLongDivisors = "rope_factors_long.weight";

GgufTensor numbers(std::string_view name, std::vector<float> values) {
  return {.name = std::string(name),
          .shape = {static_cast<int64_t>(values.size())},
          .values = std::move(values)};
}

/// What GGUF says of a rotation by tensors: what each frequency is divided by.
std::vector<GgufTensor> rope_tensors(const RopeConfig& rope, int64_t context) {
  if (rope.scaling == RopeScaling::kLongRope) {
    return {numbers(kShortDivisors, rope.divisors), numbers(kLongDivisors, rope.long_divisors)};
  }
  if (rope.scaling != RopeScaling::kLlama3) return {};
  RopeConfig plain = rope;
  plain.scaling = RopeScaling::kNone;
  const Rope unscaled(plain, context);
  const Rope scaled(rope, context);
  std::vector<float> divisors;
  for (size_t i = 0; i < scaled.frequencies().size(); ++i) {
    divisors.push_back(static_cast<float>(unscaled.frequencies()[i] / scaled.frequencies()[i]));
  }
  return {numbers(kDivisors, std::move(divisors))};
}

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

/// Whether two rotations turn every pair by the same angle, up to f32, in a short and in the whole
/// window.
bool same_rotation(const RopeConfig& a, const RopeConfig& b, int64_t context) {
  if (!near(a.magnitude, b.magnitude)) return false;
  return std::ranges::all_of(std::array{int64_t{1}, context}, [&](int64_t window) {
    const Rope left(a, window);
    const Rope right(b, window);
    return std::ranges::equal(left.frequencies(), right.frequencies(), near);
  });
}

std::array<int64_t, 19> sizes(const ModelConfig& c) {
  const ExpertConfig& e = c.experts;
  return {c.vocab,
          c.num_layers,
          c.hidden,
          c.ffn,
          c.num_heads,
          c.num_kv_heads,
          c.head_dim,
          c.context,
          static_cast<int64_t>(c.norm),
          static_cast<int64_t>(c.activation),
          static_cast<int64_t>(c.qk_norm),
          static_cast<int64_t>(c.residual),
          int64_t{c.pre_norms},
          int64_t{c.post_norms},
          int64_t{c.learned_positions},
          e.count,
          e.per_token,
          e.ffn,
          e.shared_ffn};
}

bool same_numbers(const ModelConfig& a, const ModelConfig& b) {
  const auto reals = [](const ModelConfig& c) {
    return std::array{c.norm_eps,       c.attention_scale, c.attention_soft_cap, c.embedding_scale,
                      c.residual_scale, c.logit_scale,     c.logit_soft_cap};
  };
  return sizes(a) == sizes(b) && std::ranges::equal(reals(a), reals(b), near) &&
         (a.experts.count == 0 || a.experts.renormalise == b.experts.renormalise);
}

/// What the keys, read back, say otherwise than config.json; "" if nothing.
std::string difference(const ModelConfig& wanted, const ModelConfig& got) {
  if (!same_numbers(wanted, got)) return "its numbers";
  const auto same_layer = [](const LayerConfig& a, const LayerConfig& b) {
    return a.window_tokens == b.window_tokens && a.rope == b.rope && a.experts == b.experts;
  };
  if (!std::ranges::equal(wanted.layers, got.layers, same_layer)) {
    return "which of its layers have windows, rotate, or have experts";
  }
  const auto same = [&](const RopeConfig& a, const RopeConfig& b) {
    return same_rotation(a, b, wanted.context);
  };
  if (!std::ranges::equal(wanted.ropes, got.ropes, same)) return "its rotation (RoPE)";
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

/// What the tensors say of a rotation: a header alone does not hold them.
Result<void> read_divisors(const formats::ModelFiles& header,
                           const std::vector<GgufTensor>& tensors, ModelConfig& config) {
  for (const GgufTensor& tensor : tensors) {
    if (config.ropes.empty()) return {};
    RopeConfig& rope = config.ropes.front();
    if (tensor.name == kDivisors || tensor.name == kShortDivisors) rope.divisors = tensor.values;
    if (tensor.name != kLongDivisors) continue;
    rope.long_divisors = tensor.values;
    QUIRE_TRY(rope, GgufKeys(*header.gguf(), config.architecture).long_rope(std::move(rope)));
  }
  return {};
}

}  // namespace

Result<GgufPlan> plan_from_folder(const formats::ModelFiles& files) {
  QUIRE_CHECK(files.gguf() == nullptr, "the files are a folder");
  QUIRE_TRY(const DescribedModel model, describe(files));
  const ModelConfig& c = model.config;
  GgufPlan plan;
  KeyWriter(c, plan.writer).set_all(files.path());
  QUIRE_TRY(plan.tensors, gguf_tensors(files, model));
  if (!c.ropes.empty()) {
    for (GgufTensor& tensor : rope_tensors(c.ropes.front(), c.context)) {
      plan.tensors.push_back(std::move(tensor));
    }
  }
  plan.has_head = !c.tied_head;
  plan.experts = c.experts.count;
  plan.vocab = c.vocab;
  return plan;
}

Result<void> check_same_model(const formats::ModelFiles& folder, const GgufPlan& plan) {
  QUIRE_TRY(const DescribedModel wanted, describe(folder));
  HeaderFile header(plan.writer.header());
  QUIRE_TRY(
      const formats::ModelFiles written,
      formats::ModelFiles::open(header, "the new file's header", formats::OpenMode::kMetadataOnly));
  QUIRE_TRY(DescribedModel got, describe(written));
  QUIRE_TRY_VOID(read_divisors(written, plan.tensors, got.config));
  const std::string what = difference(wanted.config, got.config);
  if (what.empty()) return {};
  return Error{ErrorCode::kUnsupported,
               fmt::format("a GGUF file of architecture {} cannot say {} as config.json does, so "
                           "none is written",
                           wanted.architecture->name, what)};
}

}  // namespace quire::model
