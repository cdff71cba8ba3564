#include "engine/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::engine {
namespace {

using testing::HasSubstr;

TEST(Window, IsTheTrainedLengthUnlessSomethingBindsSooner) {
  EXPECT_EQ(resolve_window(8192, {}, 100'000)->tokens, 8192);
  EXPECT_EQ(resolve_window(8192, {}, 100'000)->limit, WindowLimit::kTrained);
  EXPECT_EQ(resolve_window(8192, 1000, 100'000)->limit, WindowLimit::kCtx);
  EXPECT_EQ(resolve_window(8192, {}, 3000)->tokens, 3000);
  EXPECT_EQ(resolve_window(8192, {}, 3000)->limit, WindowLimit::kMemory);
}

TEST(Window, RefusesWhatCannotBe) {
  const auto beyond = resolve_window(8192, 8193, 100'000);
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().code, ErrorCode::kDoesNotFit);
  EXPECT_THAT(beyond.error().message, HasSubstr("8192"));
  EXPECT_THAT(beyond.error().message, HasSubstr("--rope-scaling"));
  EXPECT_THAT(resolve_window(8192, 5000, 3000).error().message, HasSubstr("3000"));
  EXPECT_EQ(resolve_window(8192, 0, 3000).error().code, ErrorCode::kUsage);
  EXPECT_EQ(resolve_window(8192, {}, 0).error().code, ErrorCode::kDoesNotFit);
}

TEST(Window, FitsUpToItsLastToken) {
  const Window window{100, WindowLimit::kCtx};
  EXPECT_TRUE(check_fits(window, 60, 40).ok());
  EXPECT_TRUE(check_fits(window, 99, {}).ok());
  EXPECT_FALSE(check_fits(window, 100, {}).ok());
}

TEST(Window, SaysBothNumbersAndWhatIsLeft) {
  const auto refused = check_fits({100, WindowLimit::kCtx}, 60, 41);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDoesNotFit);
  for (const char* part : {"60", "41", "100", "40 are left", "--ctx"}) {
    EXPECT_THAT(refused.error().message, HasSubstr(part));
  }
}

}  // namespace
}  // namespace quire::engine
