#include "engine/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/check.h"
#include "base/thread_pool.h"
#include "context/tokenizer_export.h"
#include "formats/printable.h"
#include "kernels/stored_rows.h"
#include "model/gguf_plan.h"

namespace quire::engine {
namespace {

using formats::ModelFiles;
using formats::TensorInfo;
using kernels::EncodeProblem;
using model::GgufPlan;
using model::GgufTensor;

constexpr int64_t kBatchBytes = 8 << 20;  // of floats, that are encoded at a time

struct TypeChoice {
  ElementType type;
  uint32_t file_type;  // general.file_type // llama.h, enum llama_ftype
};
constexpr std::array<TypeChoice, 4> kChoices = {{{ElementType::F16, 1},
                                                 {ElementType::Q8_0, 7},
                                                 {ElementType::Q4_0, 2},
                                                 {ElementType::Q4_1, 3}}};
constexpr uint32_t kQuantizationVersion = 2;  // of ggml's block formats

bool is_four_bits(ElementType type) {
  return type == ElementType::Q4_0 || type == ElementType::Q4_1;
}

/// Small tensors whose precision counts.
bool stays_high(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "position_embd.weight",
      "token_types.weight"};
  return std::ranges::any_of(kNames, [&](std::string_view end) { return name.ends_with(end); }) ||
         !name.ends_with(".weight");
}

Error cannot_encode(const GgufTensor& tensor, EncodeProblem problem, ElementType type) {
  const std::string name = formats::printable(tensor.name);
  if (problem == EncodeProblem::kNotFinite) {
    return {ErrorCode::kBadFile,
            fmt::format("tensor {} holds a number that is infinite or not a number", name)};
  }
  return {ErrorCode::kUnsupported,
          fmt::format("tensor {} holds a number too large for {}", name, info(type).name)};
}

/// Writes the tensors of a plan, each in its type.
class TensorWriter {
 public:
  TensorWriter(GgufPlan& plan, const ModelFiles& files, const QuantizeOptions& options)
      : writer_(plan.writer), files_(files), options_(options), pool_(options.threads) {
    for (const GgufTensor& tensor : plan.tensors) total_ += elements(tensor);
  }

  Result<void> write(const GgufTensor& tensor, ElementType type) {
    const int64_t cols = tensor.shape.back();
    const int64_t rows = elements(tensor) / cols;
    const int64_t batch =
        std::clamp<int64_t>(kBatchBytes / (cols * int64_t{sizeof(float)}), 1, rows);
    const auto row_bytes = *stored_bytes(type, static_cast<uint64_t>(cols));
    std::vector<std::byte> encoded(static_cast<size_t>(batch) * row_bytes);
    for (int64_t first = 0; first < rows; first += batch) {
      const int64_t count = std::min(batch, rows - first);
      const std::span<std::byte> out =
          std::span(encoded).first(static_cast<size_t>(count) * row_bytes);
      QUIRE_TRY_VOID(encode_rows(tensor, type, first, count, out));
      QUIRE_TRY_VOID(writer_.append(out));
      QUIRE_TRY_VOID(advance(count * cols));
    }
    for (const TensorInfo* source : tensor.sources) files_.release(*source);
    return {};
  }

 private:
  static int64_t elements(const GgufTensor& tensor) {
    int64_t product = 1;
    for (const int64_t dim : tensor.shape) product *= dim;
    return product;
  }

  /// Rows [first, first + count), shared out among the threads.
  Result<void> encode_rows(const GgufTensor& tensor, ElementType type, int64_t first, int64_t count,
                           std::span<std::byte> out) {
    const size_t row_bytes = out.size() / static_cast<size_t>(count);
    const auto chunks = static_cast<int32_t>(std::min<int64_t>(count, 4 * pool_.num_threads()));
    std::atomic<EncodeProblem> problem = EncodeProblem::kNone;
    pool_.parallel(chunks, [&](int32_t chunk) {
      std::vector<float> row(static_cast<size_t>(tensor.shape.back()));
      for (int64_t r = count * chunk / chunks; r < count * (chunk + 1) / chunks; ++r) {
        const auto target = out.subspan(static_cast<size_t>(r) * row_bytes, row_bytes);
        const EncodeProblem found = encode_one(tensor, type, first + r, row, target);
        if (found != EncodeProblem::kNone) problem.store(found);
      }
    });
    if (problem != EncodeProblem::kNone) return cannot_encode(tensor, problem, type);
    return {};
  }

  static EncodeProblem encode_one(const GgufTensor& tensor, ElementType type, int64_t r,
                                  std::vector<float>& row, std::span<std::byte> out) {
    if (tensor.sources.empty()) {
      const auto values = std::span(tensor.values);
      return kernels::encode_row(
          type, values.subspan(static_cast<size_t>(r) * row.size(), row.size()), out);
    }
    const int64_t rows_each =
        elements(tensor) / tensor.shape.back() / static_cast<int64_t>(tensor.sources.size());
    const TensorInfo& source = *tensor.sources[static_cast<size_t>(r / rows_each)];
    const bool is_vector = tensor.shape.size() == 1;
    const int64_t within = r % rows_each;
    const auto from =
        static_cast<size_t>(tensor.source_row && !is_vector ? tensor.source_row(within) : within);
    if (tensor.transposed) {
      read_column(source, from, row);
    } else if (tensor.source_row && is_vector) {
      read_elements(source, tensor.source_row, row);
    } else {
      const auto bytes = *stored_bytes(*source.type, row.size());
      const auto stored = source.bytes.subspan(from * bytes, bytes);
      if (*source.type == type && tensor.add == 0.0f) {
        std::ranges::copy(stored, out.begin());
        return EncodeProblem::kNone;
      }
      kernels::decode_row(*source.type, stored, row);
    }
    for (float& x : row) x += tensor.add;
    return kernels::encode_row(type, row, out);
  }

  /// Of a matrix of plain floats. // column: [rows of the source]
  static void read_column(const TensorInfo& source, size_t index, std::span<float> column) {
    const auto bytes = static_cast<size_t>(info(*source.type).block_bytes);
    const auto cols = static_cast<size_t>(source.shape.back());
    for (size_t i = 0; i < column.size(); ++i) {
      kernels::decode_row(*source.type, source.bytes.subspan((i * cols + index) * bytes, bytes),
                          column.subspan(i, 1));
    }
  }

  /// Of a bias, in the order of the rows that it is added to.
  static void read_elements(const TensorInfo& source, const std::function<int64_t(int64_t)>& order,
                            std::span<float> row) {
    std::vector<float> stored(row.size());
    kernels::decode_row(*source.type, source.bytes, stored);
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = stored[static_cast<size_t>(order(static_cast<int64_t>(i)))];
    }
  }

  Result<void> advance(int64_t count) {
    done_ += count;
    const double share = static_cast<double>(done_) / static_cast<double>(total_);
    if (!options_.progress || options_.progress(share)) return {};
    return Error{ErrorCode::kInterrupted, "interrupted; nothing was written"};
  }

  formats::GgufWriter& writer_;
  const ModelFiles& files_;
  const QuantizeOptions& options_;
  ThreadPool pool_;
  int64_t total_ = 0;
  int64_t done_ = 0;
};

Result<GgufPlan> make_plan(const ModelFiles& files, QuantizeReport& report) {
  if (files.gguf() != nullptr) return model::plan_from_gguf(files);
  QUIRE_TRY(GgufPlan plan, model::plan_from_folder(files));
  QUIRE_TRY(report.remarks, context::export_tokenizer(files, plan.vocab, plan.writer));
  return plan;
}

/// Decides the type of each tensor and declares it.
Result<std::vector<ElementType>> declare_tensors(GgufPlan& plan, bool from_folder,
                                                 ElementType wanted, QuantizeReport& report) {
  std::vector<ElementType> types;
  int64_t num_lossy = 0;
  for (const GgufTensor& tensor : plan.tensors) {
    ElementType source = ElementType::F32;
    for (const TensorInfo* each : tensor.sources) {
      QUIRE_TRY(source, formats::readable_type(*each));
    }
    const bool is_embedding = tensor.name == "token_embd.weight";
    const ElementType type =
        stored_type({.name = tensor.name,
                     .dimensions = tensor.shape.size(),
                     .columns = tensor.shape.back(),
                     .source = source,
                     .is_head = tensor.name == "output.weight" || (is_embedding && !plan.has_head),
                     .from_folder = from_folder,
                     .eight_experts = plan.experts == 8},
                    wanted);
    if (!kernels::can_encode(type) && (type != source || tensor.add != 0.0f)) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("tensor {} cannot be rewritten as {}",
                               formats::printable(tensor.name), info(type).name)};
    }
    plan.writer.add_tensor(tensor.name, tensor.shape, type);
    ++report.tensors[std::string(info(type).name)];
    if (is_quantized(source) && is_quantized(type) && type != source) ++num_lossy;
    types.push_back(type);
  }
  if (num_lossy > 0) {
    report.remarks.push_back(
        fmt::format("{} tensors were quantized before, so their losses add up; start from a file "
                    "in f16, bf16 or f32 if there is one",
                    num_lossy));
  }
  return types;
}

}  // namespace

std::optional<ElementType> quantize_type_from_name(std::string_view name) {
  const auto type = element_type_from_name(name);
  if (!type || std::ranges::find(kChoices, *type, &TypeChoice::type) == kChoices.end()) {
    return std::nullopt;
  }
  return type;
}

ElementType stored_type(const WeightPlace& place, ElementType wanted) {
  if (place.dimensions < 2 || stays_high(place.name)) {
    return place.from_folder ? ElementType::F32 : place.source;
  }
  const bool is_key_or_value = place.name.find("attn_k.") != place.name.npos ||
                               place.name.find("attn_v.") != place.name.npos;
  const bool bumped = place.is_head || (place.eight_experts && is_key_or_value);
  if (is_four_bits(wanted) && bumped) {
    if (is_quantized(place.source)) return place.source;
    wanted = ElementType::Q8_0;
  }
  const bool whole_blocks = place.columns % info(wanted).block_elements == 0;
  return whole_blocks ? wanted : ElementType::F16;
}

Result<QuantizeReport> quantize_model(const ModelFiles& files, const QuantizeOptions& options,
                                      NewFile& out) {
  const auto choice = std::ranges::find(kChoices, options.type, &TypeChoice::type);
  QUIRE_CHECK(choice != kChoices.end(), "the type is one of those offered");
  QuantizeReport report;
  QUIRE_TRY(GgufPlan plan, make_plan(files, report));
  if (plan.tensors.empty()) {
    return Error{ErrorCode::kBadFile, fmt::format("{} has no weights", files.path())};
  }
  plan.writer.set_u32("general.file_type", choice->file_type);
  if (is_quantized(options.type)) {
    plan.writer.set_u32("general.quantization_version", kQuantizationVersion);
  }
  QUIRE_TRY(const std::vector<ElementType> types,
            declare_tensors(plan, files.gguf() == nullptr, options.type, report));

  if (files.gguf() == nullptr) QUIRE_TRY_VOID(model::check_same_model(files, plan));
  QUIRE_TRY_VOID(plan.writer.begin(out));
  TensorWriter tensors(plan, files, options);
  for (size_t i = 0; i < types.size(); ++i) {
    QUIRE_TRY_VOID(tensors.write(plan.tensors[i], types[i]));
  }
  plan.writer.finish();
  report.file_bytes = plan.writer.file_bytes();
  QUIRE_TRY_VOID(out.commit());
  return report;
}

}  // namespace quire::engine
