#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "context/tokenizer/readers.h"
#include "formats/printable.h"

namespace quire::context {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";

/// Names as ggml's converter writes them, with what Hugging Face does for the models they mean.
/// "default" is llama.cpp's own mixture, for files whose converter knew no better.
struct Named {
  std::string_view name;
  std::array<std::string_view, 4> patterns;  // splits in order, matches isolated; "" ends them
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;
};

constexpr auto kNamed = std::to_array<Named>({
    {"gpt-2", {kGpt2}},
    {"gpt2", {kGpt2}},
    {"smollm", {kDigit, kGpt2}},
    {"starcoder", {kDigit, kGpt2}},
    {"llama-bpe", {kLlama3}, false, true, true},
    {"llama3", {kLlama3}, false, true, true},
    {"llama-v3", {kLlama3}, false, true, true},
    {"qwen2", {kQwen2}, true},
    {"deepseek-r1-qwen", {kQwen2}, true},
    {"default", {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
});

Result<PreTokenizerStep> isolating_split(std::string_view pattern, std::string_view what) {
  QUIRE_TRY(Regex regex, Regex::compile(pattern, what));
  return PreTokenizerStep(Split{Pattern::regex(std::move(regex))});
}

}  // namespace

Result<PreTokenizerStep> gpt2_split() {
  return isolating_split(kGpt2, "GPT-2's pre-tokenizer");
}

Result<PreTokenizerStep> digits_split(SplitBehavior behavior) {
  QUIRE_TRY(Regex regex, Regex::compile(kDigit, "The pattern of Digits"));
  return PreTokenizerStep(Split{Pattern::regex(std::move(regex)), behavior});
}

Result<NamedPreTokenizer> pre_tokenizer_by_name(std::string_view name) {
  const auto named = std::ranges::find(kNamed, name, &Named::name);
  if (named == kNamed.end()) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("The file's pre-tokenizer (tokenizer.ggml.pre) is {}, which Quire does "
                    "not know; guessing would give wrong tokens.",
                    formats::printable(name))};
  }
  NamedPreTokenizer result;
  result.ignore_merges = named->ignore_merges;
  result.add_bos = named->add_bos;
  if (named->nfc) result.normalizer.push_back(UnicodeForm::kNfc);
  for (const std::string_view pattern : named->patterns) {
    if (pattern.empty()) break;
    QUIRE_TRY(PreTokenizerStep step,
              isolating_split(pattern, fmt::format("The pre-tokenizer {}", name)));
    result.steps.push_back(std::move(step));
  }
  return result;
}

}  // namespace quire::context
