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
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// openai/tiktoken, openai_public.py, o200k_base.
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// mistralai/mistral-common, tekken_240718.json, config.pattern.
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The letters of cased scripts, as DeepSeek lists them.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[A-Za-z)"
    R"(\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})"
    R"(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3})"
    R"(\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
    R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184})"
    R"(\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";
constexpr std::string_view kDeepSeekSymbols =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepSeekCjk =
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kDeepSeek3Cjk =
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Punctuation is that of Unicode 8 (tokenizers 0.23 asks the crate unicode_categories), and ASCII's
// symbols. What later versions added must not match; two characters have since left the category.
constexpr std::string_view kPunctuationPattern =
    R"((?![)"
    R"(\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B4E}-\x{1B4F}\x{1B7D}-\x{1B7F})"
    R"(\x{2E43}-\x{2E4F}\x{2E52}-\x{2E5D}\x{10D6E}\x{10EAD}\x{10F55}-\x{10F59})"
    R"(\x{10F86}-\x{10F89}\x{113D4}-\x{113D5}\x{113D7}-\x{113D8}\x{1144B}-\x{1144F})"
    R"(\x{1145A}-\x{1145B}\x{1145D}\x{11660}-\x{1166C}\x{116B9}\x{1183B}\x{11944}-\x{11946})"
    R"(\x{119E2}\x{11A3F}-\x{11A46}\x{11A9A}-\x{11A9C}\x{11A9E}-\x{11AA2})"
    R"(\x{11B00}-\x{11B09}\x{11BE1}\x{11C41}-\x{11C45}\x{11C70}-\x{11C71})"
    R"(\x{11EF7}-\x{11EF8}\x{11F43}-\x{11F4F}\x{11FFF}\x{12FF1}-\x{12FF2})"
    R"(\x{16D6D}-\x{16D6F}\x{16E97}-\x{16E9A}\x{16FE2}\x{1E5FF}\x{1E95E}-\x{1E95F})"
    R"(])[\p{P}$+<=>^`|~\x{166D}\x{111C9}])";

// Not patterns, but the components of tokenizer.json that the makers used.
constexpr std::string_view kDigits = "Digits";             // one by one
constexpr std::string_view kDigitRuns = "DigitRuns";       // individual_digits: false
constexpr std::string_view kPunctuation = "Punctuation";   // behavior: Contiguous
constexpr std::string_view kByteCharacters = "ByteLevel";  // what follows sees bytes as characters

enum class Form : uint8_t { kAsIs, kNfc, kNfkc };

/// Names as ggml's converter writes them, with what the makers' tokenizer.json does for the models
/// they mean. "default" is llama.cpp's own mixture, for files whose converter knew no better.
struct Named {
  std::string_view name;
  std::array<std::string_view, 6> steps;  // splits in order, matches isolated; "" ends them
  Form form = Form::kAsIs;
  bool ignore_merges = false;
  bool add_bos = false;
};

constexpr auto kNamed = std::to_array<Named>({
    {"gpt-2", {kGpt2}},
    {"gpt2", {kGpt2}},
    {"phi-2", {kGpt2}},
    // transformers, tokenization_gpt_neox.py: NFC.
    {"mpt", {kGpt2}, Form::kNfc},
    {"olmo", {kGpt2}, Form::kNfc},
    {"smollm", {kDigits, kGpt2}},
    {"starcoder", {kDigits, kGpt2}},
    {"refact", {kDigits, kGpt2}},
    {"codeshell", {kDigits, kGpt2}},
    // transformers, tokenization_cohere.py: NFC.
    {"command-r", {kDigits, kGpt2}, Form::kNfc},
    // K-EXAONE's report, section 2: NFKC before that model, which changed to NFC.
    {"exaone", {kDigits, kGpt2}, Form::kNfkc},
    {"llama-bpe", {kLlama3}, Form::kAsIs, true, true},
    {"llama3", {kLlama3}, Form::kAsIs, true, true},
    {"llama-v3", {kLlama3}, Form::kAsIs, true, true},
    {"chatglm-bpe", {kLlama3}, Form::kAsIs, true},
    {"glm4", {kLlama3}, Form::kAsIs, true},
    {"dbrx", {kLlama3}},
    {"qwen2", {kQwen2}, Form::kNfc},
    {"deepseek-r1-qwen", {kQwen2}, Form::kNfc},
    {"megrez", {kQwen2}, Form::kNfc},
    {"qwen35", {kQwen35}, Form::kNfc},
    // tiktoken looks a word up as a whole first; so does transformers' TikTokenConverter.
    {"gpt-4o", {kO200k}, Form::kAsIs, true},
    {"llama4", {kO200k}, Form::kAsIs, true},
    {"tekken", {kTekken}, Form::kAsIs, true, true},
    // "(?<!\s)" changes no match of DeepSeek's "\s+$", but finds it in linear time.
    {"deepseek-llm",
     {R"([\r\n])", kDeepSeekLetters, kDeepSeekSymbols, R"((?<!\s)\s+$)", kDeepSeekCjk, kDigits}},
    {"deepseek-coder", {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekCjk, kDigits}},
    {"deepseek-v3", {R"(\p{N}{1,3})", kDeepSeek3Cjk, kDeepSeek3}},
    {"falcon", {kPunctuation, kGpt2, kByteCharacters, kDigitRuns, "[0-9][0-9][0-9]"}},
    {"default", {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
});

Result<PreTokenizerStep> isolating_split(std::string_view pattern, std::string_view what) {
  QUIRE_TRY(Regex regex, Regex::compile(pattern, what));
  return PreTokenizerStep(Split{Pattern::regex(std::move(regex))});
}

Result<PreTokenizerStep> make_step(std::string_view step, std::string_view name) {
  if (step == kDigits) return digits_split(SplitBehavior::kIsolated);
  if (step == kDigitRuns) return digits_split(SplitBehavior::kContiguous);
  if (step == kPunctuation) return punctuation_split(SplitBehavior::kContiguous);
  if (step == kByteCharacters) return PreTokenizerStep(ToByteCharacters{});
  return isolating_split(step, fmt::format("The pre-tokenizer {}", name));
}

}  // namespace

Result<PreTokenizerStep> gpt2_split() {
  return isolating_split(kGpt2, "GPT-2's pre-tokenizer");
}

/// Rust's char::is_numeric(): \p{N} of a Unicode version later than the patterns'.
Result<PreTokenizerStep> digits_split(SplitBehavior behavior) {
  QUIRE_TRY(Regex regex, Regex::compile(R"([\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}])",
                                        "The pattern of Digits"));
  return PreTokenizerStep(Split{Pattern::regex(std::move(regex)), behavior});
}

Result<PreTokenizerStep> punctuation_split(SplitBehavior behavior) {
  QUIRE_TRY(Regex regex, Regex::compile(kPunctuationPattern, "The pattern of Punctuation"));
  return PreTokenizerStep(Split{Pattern::regex(std::move(regex)), behavior});
}

std::vector<std::string_view> pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const Named& named : kNamed) names.push_back(named.name);
  return names;
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
  if (named->form == Form::kNfc) result.normalizer.push_back(UnicodeForm::kNfc);
  if (named->form == Form::kNfkc) result.normalizer.push_back(UnicodeForm::kNfkc);
  bool as_characters = false;
  for (const std::string_view step : named->steps) {
    if (step.empty()) break;
    QUIRE_TRY(PreTokenizerStep made, make_step(step, name));
    result.steps.push_back(std::move(made));
    as_characters |= step == kByteCharacters;
  }
  if (as_characters) result.steps.push_back(FromByteCharacters{});
  return result;
}

}  // namespace quire::context
