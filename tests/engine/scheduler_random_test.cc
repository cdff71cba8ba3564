// Random requests, steps and cancellations on a scheduler with little memory; after each step the
// store checks itself, and in the end every answer is what generate() gives alone. The harness
// proves itself on planted faults.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <random>

#include "engine/scheduler_testing.h"

namespace quire::engine {
namespace {

enum class Fault {
  kNone,
  kReadsAnotherToken,  // one prompt is not what its answer is compared with
  kKeepsPages,         // a sequence outlives its request
  kDrawsAnotherToken,  // one draw is another's
};

struct Config {
  std::string name;
  std::string model = "llama_tied";
  std::string cache = "dynamic";
  std::string kv = "f16";
  double memory = 2.5;  // of what one request needs at most
};

void PrintTo(const Config& config, std::ostream* out) {
  *out << config.name;
}

constexpr int64_t kContext = 256;
constexpr int32_t kChunk = 40;

/// What a request is made from, so that the same one can be made again.
struct Recipe {
  int32_t family = 0;  // of prompts with a common beginning
  int64_t common = 0;
  int64_t own = 1;
  int64_t max_tokens = 1;
  uint64_t seed = 0;
  int32_t choice = 0;
  int64_t resume_point = 0;  // 0: none
  bool few_words = false;

  [[nodiscard]] Request request(const Model& model) const {
    std::vector<TokenId> prompt = prompt_of(20 + family, common);
    prompt = joined(std::move(prompt), prompt_of(90 + static_cast<int32_t>(seed % 20), own));
    Request request = request_of(std::move(prompt), max_tokens, seed);
    request.options.sampling.choice = choice;
    if (few_words) keep_to_few_words(model, request.options.sampling);
    if (resume_point > 0) request.options.resume_points = {resume_point};
    return request;
  }
};

class RandomRun {
 public:
  RandomRun(const Model& model, const Config& config, uint32_t seed, Fault fault)
      : model_(model), fault_(fault), random_(seed), options_(options_of(model, config)) {
    // Time for so many layers of a prompt's pass a step; without end, prompts and answers run as
    // one.
    const std::array slowdowns = {1.0, 2.5, 9.0, std::numeric_limits<double>::infinity()};
    bench_ = std::make_unique<Bench>(
        model, options_,
        SchedulerOptions{.max_sequences = 5,
                         .prefill_slowdown = slowdowns[seed % slowdowns.size()],
                         .now_ms = [now = 0.0]() mutable { return now += 1.0; }});
  }

  /// The first difference as a sentence.
  std::optional<std::string> run(int operations) {
    for (int i = 0; i < operations; ++i) {
      const int choice = uniform(0, 99);
      if (choice < 20 && asked_.size() < 60) {
        submit();
      } else if (choice < 24 && !asked_.empty()) {
        bench_->cancel(RequestId{uniform(0, static_cast<int>(asked_.size()) - 1)});
      } else {
        bench_->step();
      }
      const int64_t held = bench_->engine().kv_stats().bytes_held;
      if (held > options_.memory_bytes) return fmt::format("{} bytes held", held);
    }
    for (int i = 0; bench_->scheduler().has_work(); ++i) {
      if (i > 20000) return "a stand-still";
      bench_->step();
    }
    const int64_t kept = bench_->engine().page_counts().held_by_sequences;
    if (kept != 0) return fmt::format("{} pages are held by sequences, and none runs", kept);
    for (size_t i = 0; i < asked_.size(); ++i) {
      if (auto difference = compare(i)) return fmt::format("request {}: {}", i, *difference);
    }
    return std::nullopt;
  }

  const SchedulerCounters& counters() const { return bench_->scheduler().counters(); }

 private:
  struct Asked {
    Recipe recipe;
    const Story* story;
  };

  static EngineOptions options_of(const Model& model, const Config& config) {
    EngineOptions options{.context_tokens = kContext, .static_sequences = 3};
    options.prefill_chunk = kChunk;
    options.cache = parse_cache_policy(config.cache).value();
    options.kv = kv::codecs_from_name(config.kv).value();
    const auto roomy = engine_or_die(model, options);
    const auto one = static_cast<double>(roomy->geometry().peak_bytes(kContext, kChunk));
    options.memory_bytes = static_cast<int64_t>(config.memory * one);
    return options;
  }

  int uniform(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

  void submit() {
    Recipe recipe{.family = uniform(0, 2),
                  .common = 30 * uniform(0, 4),
                  .own = uniform(1, 60),
                  .max_tokens = uniform(1, 70),
                  .seed = static_cast<uint64_t>(uniform(0, 5)),
                  .choice = uniform(0, 2),
                  .few_words = uniform(0, 1) == 0};
    if (uniform(0, 3) == 0) recipe.resume_point = uniform(1, static_cast<int>(recipe.common + 1));
    Request request = recipe.request(model_);
    constexpr DraftRule kRules[] = {DraftRule::kAlways, DraftRule::kNever, DraftRule::kWhenItPays};
    request.options.draft.rule = kRules[uniform(0, 2)];
    request.tenant = uniform(0, 3) == 0 ? "b" : "a";
    request.reuse = uniform(0, 9) == 0 ? PrefixReuse::kOff : PrefixReuse::kOn;
    if (asked_.size() >= 7 && asked_.size() < 12) plant(request);
    const Story& story = bench_->submit(std::move(request));
    asked_.push_back({recipe, &story});
  }

  void plant(Request& request) {
    if (fault_ == Fault::kReadsAnotherToken) request.prompt[request.prompt.size() / 2] = {7};
    if (fault_ == Fault::kDrawsAnotherToken) request.options.sampling.seed += 1000;
    if (fault_ != Fault::kKeepsPages) return;
    kept_ = bench_->engine().create_sequence();
    EXPECT_TRUE(bench_->engine().append(*kept_, request.prompt).ok());
  }

  std::optional<std::string> compare(size_t index) {
    const auto& [recipe, story] = asked_[index];
    if (!story->done) return "no end";
    if (!story->done->ok()) return story->done->error().message;
    const Generated& got = story->answer();
    const Generated& expected = alone(recipe);
    if (got.tokens != story->tokens) return "its listener heard other tokens";
    if (got.finish == FinishReason::kInterrupted) {
      if (got.tokens.size() > expected.tokens.size()) return "too many tokens";
      if (!std::equal(got.tokens.begin(), got.tokens.end(), expected.tokens.begin())) {
        return "other tokens before it was cancelled";
      }
      return std::nullopt;
    }
    if (got.tokens != expected.tokens) return "other tokens";
    if (got.text != expected.text || story->text != expected.text) return "other text";
    if (!(got.logprobs == expected.logprobs)) return "other log-probabilities";
    return std::nullopt;
  }

  const Generated& alone(const Recipe& recipe) {
    const auto key = std::tuple(recipe.family, recipe.common, recipe.own, recipe.max_tokens,
                                recipe.seed, recipe.choice, recipe.few_words);
    const auto known = answers_.find(key);
    if (known != answers_.end()) return known->second;
    return answers_.emplace(key, answer_alone(model_, options_, recipe.request(model_)))
        .first->second;
  }

  const Model& model_;
  const Fault fault_;
  std::mt19937 random_;
  const EngineOptions options_;
  std::unique_ptr<Bench> bench_;
  std::optional<Sequence> kept_;  // before the engine goes
  std::vector<Asked> asked_;
  using Key = std::tuple<int32_t, int64_t, int64_t, int64_t, uint64_t, int32_t, bool>;
  std::map<Key, Generated> answers_;
};

class SchedulerRandom : public testing::TestWithParam<Config> {};

TEST_P(SchedulerRandom, EveryAnswerIsTheOneThatItsRequestGetsAlone) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/" + GetParam().model);
  int64_t preemptions = 0;
  int64_t hits = 0;
  int64_t drafted = 0;
  int64_t accepted = 0;
  for (const uint32_t seed : {1u, 2u, 3u}) {
    RandomRun run(*model, GetParam(), seed, Fault::kNone);
    EXPECT_EQ(run.run(300), std::nullopt) << "seed " << seed;
    preemptions += run.counters().preemptions;
    hits += run.counters().prefix_hits;
    drafted += run.counters().drafted_tokens;
    accepted += run.counters().accepted_tokens;
  }
  EXPECT_GT(accepted, 0) << "no guess was right";
  EXPECT_GT(drafted, accepted) << "no guess was taken back";
  EXPECT_GT(preemptions, 0) << "too much memory to try anything";
  EXPECT_GT(hits, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, SchedulerRandom,
    testing::Values(Config{.name = "Dynamic"}, Config{.name = "Tight", .memory = 1.7},
                    Config{.name = "Lossy", .kv = "q8/q4"},
                    Config{.name = "Windows", .model = "gemma3"},
                    Config{.name = "Sliding", .cache = "sliding:50+4"},
                    Config{.name = "Static", .cache = "static", .memory = 3.0}),
    [](const auto& test) { return test.param.name; });

TEST(SchedulerRandomHarness, FindsPlantedFaults) {
  const auto model = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
  for (const Fault fault :
       {Fault::kReadsAnotherToken, Fault::kKeepsPages, Fault::kDrawsAnotherToken}) {
    const Config config{.name = "Planted", .memory = 4.0};
    EXPECT_TRUE(RandomRun(*model, config, 5, fault).run(120)) << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace quire::engine
