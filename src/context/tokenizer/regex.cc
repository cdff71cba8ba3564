#include "context/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "context/tokenizer/regex_syntax.h"
#include "formats/printable.h"

namespace quire::context {
namespace {

/// Backtracking steps a single match may take per byte of its text, and in any case. A run of n
/// spaces costs the usual patterns n steps; only catastrophic patterns come near this.
constexpr uint64_t kStepsPerByte = 8;
constexpr uint64_t kMinSteps = 1'000'000;
constexpr size_t kJitStackMin = size_t{32} << 10;
constexpr size_t kJitStackMax = size_t{16} << 20;

}  // namespace

struct RegexScratch::Impl {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* jit_stack = nullptr;
  bool exhausted = false;

  Impl() { QUIRE_CHECK(data != nullptr && context != nullptr, "out of memory for a match"); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    pcre2_jit_stack_free(jit_stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }

  /// The first stack is 32 kB of the thread's own; a match that needs more gets a growing one.
  bool grow_jit_stack() {
    if (jit_stack != nullptr) return false;
    jit_stack = pcre2_jit_stack_create(kJitStackMin, kJitStackMax, nullptr);
    if (jit_stack == nullptr) return false;
    pcre2_jit_stack_assign(context, nullptr, jit_stack);
    return true;
  }
};

RegexScratch::RegexScratch(Texts texts) : impl_(std::make_unique<Impl>()), texts_(texts) {}
RegexScratch::~RegexScratch() = default;

struct Regex::Impl {
  std::string source;
  pcre2_code* code = nullptr;
  bool has_jit = false;

  Impl(std::string_view pattern, pcre2_code* compiled)
      : source(pattern),
        code(compiled),
        has_jit(pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { pcre2_code_free(code); }

  int match(std::string_view text, size_t from, RegexScratch::Impl& scratch) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (has_jit) {
      const auto run = [&] {
        return pcre2_jit_match(code, subject, text.size(), from, 0, scratch.data, scratch.context);
      };
      found = run();
      if (found == PCRE2_ERROR_JIT_STACKLIMIT && scratch.grow_jit_stack()) found = run();
    }
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its state on the heap
      found = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          scratch.data, scratch.context);
    }
    return found;
  }
};

Regex::Regex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern, std::string_view what) {
  QUIRE_TRY(const std::string translated, to_pcre2(pattern, what));
  int code = 0;
  size_t offset = 0;
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr);
  if (compiled == nullptr) {
    PCRE2_UCHAR reason[256] = {};
    pcre2_get_error_message(code, reason, sizeof reason);
    return Error{ErrorCode::kBadFile,
                 fmt::format("{} is no valid pattern ({}): {}.", what,
                             reinterpret_cast<const char*>(reason), formats::printable(pattern))};
  }
  return Regex(std::make_unique<Impl>(pattern, compiled));
}

std::string_view Regex::source() const {
  return impl_->source;
}

std::optional<ByteRange> Regex::find(std::string_view text, size_t from,
                                     RegexScratch& scratch_owner) const {
  RegexScratch::Impl& scratch = *scratch_owner.impl_;
  if (scratch.exhausted) return std::nullopt;
  const uint64_t steps = kMinSteps + kStepsPerByte * text.size();
  pcre2_set_match_limit(scratch.context, static_cast<uint32_t>(std::min<uint64_t>(steps, ~0u)));
  const int found = impl_->match(text, from, scratch);
  if (found < 0) {
    scratch.exhausted = found != PCRE2_ERROR_NOMATCH;
    return std::nullopt;
  }
  const size_t* ends = pcre2_get_ovector_pointer(scratch.data);
  // "\K" is not translated, so a match cannot begin after it ends.
  QUIRE_CHECK_LE(ends[0], ends[1]);
  return ByteRange{ends[0], ends[1]};
}

}  // namespace quire::context
