// A megabyte of anything takes less than a second. CPU time, so that a busy machine does not fail.
#include <gtest/gtest.h>

#include <ctime>

#include "context/tokenizer_testing.h"
#include "scenarios/real_model.h"

namespace quire::context {
namespace {

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

constexpr double slowed_by_sanitizers() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 20;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return 20;
#else
  return 1;
#endif
#else
  return 1;
#endif
}

void expect_linear(const Tokenizer& tokenizer) {
  for (const std::string unit :
       {"a", " ", "\n", "\u4F60\u597D\u4E16\u754C", "\u4F60", "!", "ab", "\r\n", " \n", "\xFF",
        "1234567890", "\U0001F600", "a\u0301\u0323", "<|im_start|", "\u2581", "  a"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    const double start = cpu_seconds();
    const auto ids = tokenizer.encode(text, Special::kParse);
    EXPECT_LT(cpu_seconds() - start, 1.0 * slowed_by_sanitizers()) << formats::Json(unit).dump();
    EXPECT_LE(ids.size(), text.size() + 1);  // a prefixed space
  }
}

TEST(TokenizerTime, IsUnderASecondForAMegabyteOfAnythingByteLevel) {
  const auto path = engine::real_model("smollm2");
  QUIRE_SKIP_WITHOUT("smollm2", path);
  expect_linear(tokenizer_of_gguf(*path));
}

TEST(TokenizerTime, IsUnderASecondForAMegabyteOfAnythingWithNfc) {
  const auto tokenizer = shared_tokenizer("qwen3");
  if (!tokenizer) GTEST_SKIP() << "needs ../shared/tokenizers/qwen3";
  expect_linear(*tokenizer);
}

TEST(TokenizerTime, IsUnderASecondForAMegabyteOfAnythingSentencePiece) {
  const auto tokenizer = shared_tokenizer("mistral_v1");
  if (!tokenizer) GTEST_SKIP() << "needs ../shared/tokenizers/mistral_v1";
  expect_linear(*tokenizer);
}

}  // namespace
}  // namespace quire::context
