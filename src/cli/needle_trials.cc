#include "cli/needle_trials.h"

#include <algorithm>
#include <set>

#include "engine/logprobs.h"

namespace quire::cli {
namespace {

using engine::Engine;
using engine::Sequence;

// Enough for a short answer and whatever a model puts before it.
constexpr int kMostAnswerTokens = 16;

int64_t common_beginning(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

class NeedleRunner {
 public:
  NeedleRunner(Engine& engine, std::span<const NeedlePrompt> prompts)
      : engine_(engine),
        tokenizer_(engine.model().tokenizer()),
        prompts_(prompts),
        base_(engine.create_sequence()) {
    for (const NeedlePrompt& prompt : prompts) {
      tokens_.push_back(needle_tokens(tokenizer_, prompt.text));
    }
  }

  Result<NeedleRun> run(const NeedleProgress& progress) {
    for (const std::vector<TokenId>& tokens : tokens_) {
      QUIRE_TRY_VOID(engine::check_fits(engine_.window(), std::ssize(tokens), kMostAnswerTokens));
    }
    for (size_t i = 0; i < prompts_.size(); ++i) {
      if (!progress(static_cast<int64_t>(i), std::ssize(prompts_))) break;
      QUIRE_TRY(NeedleTrial trial, judge(i));
      run_.trials.push_back(std::move(trial));
    }
    return std::move(run_);
  }

 private:
  Result<NeedleTrial> judge(size_t index) {
    const NeedlePrompt& prompt = prompts_[index];
    QUIRE_TRY(const std::vector<float> logits, read(index));
    NeedleTrial trial{.prompt = &prompt, .tokens = std::ssize(tokens_[index])};
    QUIRE_TRY_VOID(write(logits, trial));
    QUIRE_TRY(const double right, answer_logprob(logits, prompt.answer));
    double best_wrong = -1e300;
    for (const std::string& other : prompt.others) {
      QUIRE_TRY(const double wrong, answer_logprob(logits, other));
      best_wrong = std::max(best_wrong, wrong);
      if (wrong >= right) ++trial.rank;
    }
    trial.margin = right - best_wrong;
    trial.chosen = trial.rank == 1;
    return trial;
  }

  /// Reads the prompt into base_, as far as it is not known; the logits after it.
  Result<std::vector<float>> read(size_t index) {
    std::span<const TokenId> tokens = tokens_[index];
    engine_.resume(base_, tokens);
    run_.reused_tokens += base_.length();
    run_.prefilled_tokens += std::ssize(tokens) - base_.length();
    std::vector<float> logits;
    for (const int64_t end : stops(index, base_.length())) {
      const auto chunk = tokens.subspan(static_cast<size_t>(base_.length()),
                                        static_cast<size_t>(end - base_.length()));
      QUIRE_TRY(const std::span<const float> last, engine_.append(base_, chunk));
      // Prompts to come go on from here; layers with windows only can if it is said.
      engine_.publish(base_, engine::PublishPoint::kGoesOn);
      if (end == std::ssize(tokens)) logits.assign(last.begin(), last.end());
    }
    return logits;
  }

  /// Where later prompts leave this one, behind `from`, and its end.
  std::set<int64_t> stops(size_t index, int64_t from) const {
    std::set<int64_t> stops = {std::ssize(tokens_[index])};
    for (size_t later = index + 1; later < tokens_.size(); ++later) {
      if (prompts_[later].task != prompts_[index].task ||
          prompts_[later].length != prompts_[index].length) {
        break;
      }
      const int64_t common = common_beginning(tokens_[index], tokens_[later]);
      if (common > from && common < std::ssize(tokens_[index])) stops.insert(common);
    }
    return stops;
  }

  /// Greedily, to the end of the line.
  Result<void> write(std::span<const float> logits, NeedleTrial& trial) {
    Sequence own = engine_.fork(base_);
    std::vector<TokenId> written;
    for (int i = 0; i < kMostAnswerTokens; ++i) {
      const TokenId next = engine::argmax(logits);
      if (tokenizer_.is_end_of_generation(next)) break;
      written.push_back(next);
      trial.written = tokenizer_.decode(written, context::SpecialText::kSkip);
      if (trial.written.find('\n') != std::string::npos) break;
      QUIRE_TRY(logits, engine_.append(own, std::span(&next, 1)));
    }
    trial.written.resize(std::min(trial.written.find('\n'), trial.written.size()));
    trial.answered = contains_number(trial.written, trial.prompt->answer);
    return {};
  }

  /// Whether `number` stands there, and not as a part of a longer number.
  static bool contains_number(std::string_view text, std::string_view number) {
    const auto is_digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    for (size_t at = text.find(number); at != std::string_view::npos;
         at = text.find(number, at + 1)) {
      if (!is_digit(at + number.size()) && (at == 0 || !is_digit(at - 1))) return true;
    }
    return false;
  }

  /// Of " 1234" after the prompt.
  Result<double> answer_logprob(std::span<const float> after_prompt, const std::string& answer) {
    const std::vector<TokenId> ids = tokenizer_.encode(" " + answer, context::Special::kPlain);
    double sum = engine::logprob(after_prompt, ids.front());
    if (ids.size() == 1) return sum;
    Sequence own = engine_.fork(base_);
    const std::span rest = std::span(ids).first(ids.size() - 1);
    QUIRE_TRY_VOID(engine_.append_all_logits(
        own, rest, [&](int64_t index, std::span<const float> logits) -> Result<void> {
          sum += engine::logprob(logits, ids[static_cast<size_t>(index) + 1]);
          return {};
        }));
    return sum;
  }

  Engine& engine_;
  const context::Tokenizer& tokenizer_;
  std::span<const NeedlePrompt> prompts_;
  std::vector<std::vector<TokenId>> tokens_;
  Sequence base_;
  NeedleRun run_;
};

}  // namespace

std::vector<TokenId> needle_tokens(const context::Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> tokens(tokenizer.prefix().begin(), tokenizer.prefix().end());
  const std::vector<TokenId> ids = tokenizer.encode(text, context::Special::kPlain);
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  return tokens;
}

Result<NeedleRun> run_needles(Engine& engine, std::span<const NeedlePrompt> prompts,
                              const NeedleProgress& progress) {
  return NeedleRunner(engine, prompts).run(progress);
}

}  // namespace quire::cli
