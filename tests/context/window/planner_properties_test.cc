// What holds for every plan: random conversations x policies x windows, over every template.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "context/window/fit.h"
#include "context/window/window_testing.h"

namespace quire::context::window {
namespace {

using formats::Json;
using Status = KeepPlan::Status;

constexpr std::array kPolicies = {Policy::kReject,   Policy::kTruncateLeft, Policy::kTruncateRight,
                                  Policy::kHeadTail, Policy::kSummarize,    Policy::kRetrieve,
                                  Policy::kAuto};

/// Whatever is asked of one planned request.
class Check {
 public:
  Check(const TextModel& text, const Planner& planner) : text_(text), planner_(planner) {}

  void run(const KeepPlan& plan) {
    const KeepPlan again = planner_.plan(plan.limits);
    ASSERT_EQ(again.actions.size(), plan.actions.size());
    ASSERT_EQ(again.tokens, plan.tokens);
    if (plan.status == Status::kRefused) return refused(plan);
    const auto fitted = carry_out(planner_, plan, nullptr);
    ASSERT_TRUE(fitted.ok()) << fitted.error().message;
    within_budget(*fitted);
    sums_exactly(*fitted);
    if (plan.status == Status::kFits) return byte_identical(*fitted);
    keeps_what_is_pinned(plan, *fitted);
    splits_nothing(plan, *fitted);
    hides_nothing(plan, *fitted);
    is_the_shortest(plan);
  }

 private:
  const Json::Array& messages() const { return *planner_.request().chat.messages.as_array(); }

  void refused(const KeepPlan& plan) {
    const Error error = overflow_error(planner_, plan);
    EXPECT_EQ(error.code, ErrorCode::kDoesNotFit);
    EXPECT_NE(error.message.find(std::to_string(plan.limits.window)), std::string::npos);
    EXPECT_NE(error.message.find(std::to_string(plan.tokens_before)), std::string::npos);
    EXPECT_GT(plan.deficit(), 0) << error.message;
  }

  void within_budget(const Fitted& fitted) {
    const Report& report = fitted.report;
    EXPECT_LE(report.prompt_tokens + report.budget.reserve, report.limits.window);
    ChatRequest sent = fitted.chat;
    sent.messages = fitted.messages;
    sent.insertions.clear();
    EXPECT_EQ(prompt_tokens(text_.tokenizer, text_.chat_template, sent).value(),
              report.prompt_tokens);
    EXPECT_EQ(text_.chat_template.render(sent)->text, fitted.prompt.rendered.text);
  }

  void sums_exactly(const Fitted& fitted) {
    int64_t before = 0;
    for (const Part& part : planner_.anatomy().parts) before += part.tokens;
    EXPECT_EQ(before, fitted.report.tokens_before);
    int64_t after = 0;
    const Json json = context_json(fitted.report);
    for (const Json& row : *json.find("kept")->as_array()) after += *row.find("tokens")->as_int();
    EXPECT_EQ(after, fitted.report.prompt_tokens);
  }

  void byte_identical(const Fitted& fitted) {
    EXPECT_EQ(fitted.chat.messages, planner_.request().chat.messages);
    EXPECT_EQ(fitted.prompt.rendered.text, planner_.anatomy().prompt.rendered.text);
    EXPECT_EQ(fitted.report.risk == "none", !fitted.report.max_tokens_before);
    if (planner_.request().chunks.empty()) {
      EXPECT_EQ(fitted.messages, planner_.request().chat.messages);
    }
  }

  void keeps_what_is_pinned(const KeepPlan& plan, const Fitted& fitted) {
    const Policy policy = planner_.request().policy.policy;
    for (size_t m = 0; m < messages().size(); ++m) {
      const auto index = static_cast<int32_t>(m);
      const bool question = index == planner_.anatomy().question;
      const bool may_cut = policy == Policy::kTruncateRight || policy == Policy::kAuto;
      if (!planner_.anatomy().pinned(index) && (!question || may_cut)) continue;
      EXPECT_EQ(plan.draft.messages[m].treatment, Treatment::kKeep) << m;
      const std::string text = content_text(messages()[m]).value_or("");
      EXPECT_TRUE(std::ranges::any_of(*fitted.messages.as_array(),
                                      [&](const Json& sent) {
                                        return content_text(sent).value_or("").find(text) !=
                                               std::string::npos;
                                      }))
          << "a pinned message is not there: " << text;
    }
    EXPECT_TRUE(plan.draft.stands(planner_.anatomy().question));
    const std::string& before = planner_.anatomy().prompt.rendered.text;
    if (before.find("SENTINEL-9f3a") != std::string::npos) {
      EXPECT_NE(fitted.prompt.rendered.text.find("SENTINEL-9f3a"), std::string::npos);
    }
  }

  void splits_nothing(const KeepPlan& plan, const Fitted& fitted) {
    for (const Group& group : planner_.anatomy().groups) {
      const bool stands = plan.draft.stands(group.messages.front());
      for (const int32_t m : group.messages) EXPECT_EQ(plan.draft.stands(m), stands) << m;
    }
    if (!orphaned_results(messages()).empty()) return;
    EXPECT_TRUE(orphaned_results(*fitted.messages.as_array()).empty());
  }

  /// A message that is not sent as it came has a row that says so; what has none is sent whole.
  void hides_nothing(const KeepPlan& plan, const Fitted& fitted) {
    const Json json = context_json(fitted.report);
    EXPECT_EQ(*json.find("status")->as_string(), "changed");
    EXPECT_NE(*json.find("risk")->as_string(), "none");
    std::set<std::string> reported;
    for (const Json& row : *json.find("dropped")->as_array()) {
      reported.insert(*row.find("part")->as_string());
      EXPECT_FALSE(row.find("action")->as_string()->empty());
    }
    const std::string& prompt = fitted.prompt.rendered.text;
    for (size_t m = 0; m < messages().size(); ++m) {
      const Part& part = planner_.anatomy().message_part(static_cast<int32_t>(m));
      const std::string text = content_text(messages()[m]).value_or("");
      if (part.tokens == 0 || text.empty() || reported.contains(part.id)) continue;
      EXPECT_TRUE(plan.draft.stands(static_cast<int32_t>(m)));
      // Some templates trim, none rewrites the first word.
      EXPECT_NE(prompt.find(text.substr(0, text.find_first_of(" \n."))), std::string::npos)
          << part.id;
    }
  }

  /// Every shorter beginning of the ladder at which a plan may end is too long or refused.
  void is_the_shortest(const KeepPlan& plan) {
    if (plan.actions.size() > 24) return;  // those are the same code, only slower
    for (size_t count = 1; count < plan.actions.size(); ++count) {
      if (!plan.actions[count - 1].may_stop) continue;
      const Draft draft = after(planner_.sources(), plan.actions, count);
      const auto tokens = prompt_tokens(text_.tokenizer, text_.chat_template,
                                        realize(planner_.sources(), draft, {}).chat);
      if (!tokens.ok()) continue;
      const int64_t room = draft.summary_tokens > 0 ? draft.summary_tokens + 8 : 0;
      const int64_t chunks = kept_chunk_tokens(planner_.sources(), draft);
      EXPECT_GT(*tokens + room, plan.most_tokens(chunks)) << "after " << count;
    }
  }

  const TextModel& text_;
  const Planner& planner_;
};

/// What of the request a plan keeps, from nothing to whole, by message.
std::vector<int64_t> kept_of(const KeepPlan& plan) {
  std::vector<int64_t> kept;
  for (const Draft::Message& m : plan.draft.messages) {
    switch (m.treatment) {
      case Treatment::kKeep:
        kept.push_back(m.without_thinking ? INT32_MAX - 1 : INT32_MAX);
        break;
      case Treatment::kCut:
        kept.push_back(1000 + m.keep_tokens);
        break;
      case Treatment::kMask:
      case Treatment::kSupersede:
        kept.push_back(3);
        break;
      case Treatment::kSummarize:
      case Treatment::kReplace:
        kept.push_back(2);
        break;
      case Treatment::kDrop:
        kept.push_back(1);
        break;
    }
  }
  for (const bool chunk : plan.draft.chunk_kept) kept.push_back(chunk ? 1 : 0);
  return kept;
}

void expect_more_is_kept(const KeepPlan& small, const KeepPlan& big) {
  if (small.status == Status::kRefused) return;
  ASSERT_NE(big.status, Status::kRefused);
  ASSERT_LE(big.actions.size(), small.actions.size());
  // Excerpts stand for what was replaced: with fewer of it gone there may be none.
  if (big.status == Status::kFits) return;
  const std::vector<int64_t> less = kept_of(small), more = kept_of(big);
  for (size_t i = 0; i < less.size(); ++i) EXPECT_LE(less[i], more[i]) << i;
}

void try_windows(const TextModel& text, const WindowRequest& request, std::mt19937& random) {
  const auto planner = Planner::create(text, request);
  ASSERT_TRUE(planner.ok()) << planner.error().message;
  const int64_t whole = (*planner)->anatomy().prompt.count();
  std::vector<int64_t> windows;
  for (int i = 0; i < 3; ++i)
    windows.push_back(64 + static_cast<int64_t>(random()) % (whole * 3 / 2));
  std::ranges::sort(windows);
  std::optional<KeepPlan> last;
  for (const int64_t window : windows) {
    const KeepPlan plan = (*planner)->plan({.window = window, .by = "ctx", .trained = {}});
    Check(text, **planner).run(plan);
    if (last && request.policy.step == 0) expect_more_is_kept(*last, plan);
    last = plan;
    if (testing::Test::HasFailure()) FAIL() << "window " << window;
  }
}

void try_many(const NamedTemplate& named, int count) {
  const ChatTemplate chat_template = parse_template(named);
  const TextModel text{small_tokenizer(), chat_template};
  for (int i = 0; i < count; ++i) {
    std::mt19937 random(static_cast<uint32_t>(1000003 * i + 17));
    WindowRequest request = random_request(random, chat_template);
    request.chat.special_tokens = named.special_tokens;
    request.policy.policy = kPolicies[static_cast<size_t>(i) % kPolicies.size()];
    if (random() % 3 != 0) request.policy.step = 0;
    if (random() % 3 == 0) request.policy.max_tokens = 1 + static_cast<int64_t>(random() % 300);
    if (random() % 4 == 0) request.policy.output = Output::kShrink;
    if (random() % 5 == 0) request.policy.budgets[PartKind::kRag] = 150;
    if (random() % 5 == 0) request.policy.budgets[PartKind::kToolResult] = 300;
    SCOPED_TRACE(named.name + ", case " + std::to_string(i) + ", " +
                 std::string(name(request.policy.policy)));
    try_windows(text, request, random);
    if (testing::Test::HasFailure()) return;
  }
}

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const NamedTemplate& named : all_templates()) names.push_back(named.name);
  return names;
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

class PlannerProperties : public testing::TestWithParam<std::string> {};

TEST_P(PlannerProperties, HoldForRandomRequestsPoliciesAndWindows) {
  try_many(named_template(GetParam()), 120);
}

INSTANTIATE_TEST_SUITE_P(Templates, PlannerProperties, testing::ValuesIn(template_names()),
                         test_name);

class LongPlannerProperties : public testing::TestWithParam<std::string> {};

TEST_P(LongPlannerProperties, HoldForAHundredThousandRequests) {
  try_many(named_template(GetParam()), 5900);
}

INSTANTIATE_TEST_SUITE_P(Templates, LongPlannerProperties, testing::ValuesIn(template_names()),
                         test_name);

}  // namespace
}  // namespace quire::context::window
