#include "model/wanted_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire::model {
namespace {

using kernels::PagedKvView;

std::vector<TokenId> tokens_from(int32_t first, int32_t count) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(TokenId{first + i});
  return tokens;
}

TEST(WantedRows, OfAPromptIsItsLastRowAtItsPosition) {
  const std::vector<TokenId> tokens = tokens_from(100, 7);
  const std::vector<BatchSequence> sequences = {{{}, 40, 7}};
  const std::vector<int32_t> last = {6};
  const WantedRows wanted = wanted_rows({tokens, sequences, last});
  EXPECT_EQ(wanted.rows, last);
  EXPECT_EQ(wanted.logit_rows, std::vector<int32_t>{0});
  EXPECT_EQ(wanted.tokens, std::vector<TokenId>{TokenId{106}});
  ASSERT_EQ(wanted.sequences.size(), 1u);
  EXPECT_EQ(wanted.sequences[0].first_position, 46);
  EXPECT_EQ(wanted.sequences[0].num_rows, 1);
}

TEST(WantedRows, KeepsNeighboursOfASequenceTogetherAndApartFromOtherSequences) {
  const std::vector<PagedKvView> views(3);
  const std::vector<TokenId> tokens = tokens_from(0, 10);
  const std::vector<BatchSequence> sequences = {
      {{&views[0], 1}, 5, 4}, {{&views[1], 1}, 0, 2}, {{&views[2], 1}, 90, 4}};
  const std::vector<int32_t> logit_rows = {1, 3, 6, 7, 9};  // 5, the second's last, is not wanted
  const WantedRows wanted = wanted_rows({tokens, sequences, logit_rows});
  struct Run {
    const PagedKvView* view;
    int32_t first_position;
    int32_t num_rows;
  };
  const std::vector<Run> runs = {
      {&views[0], 6, 1}, {&views[0], 8, 1}, {&views[2], 90, 2}, {&views[2], 93, 1}};
  ASSERT_EQ(wanted.sequences.size(), runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(wanted.sequences[i].groups.data(), runs[i].view) << i;
    EXPECT_EQ(wanted.sequences[i].first_position, runs[i].first_position) << i;
    EXPECT_EQ(wanted.sequences[i].num_rows, runs[i].num_rows) << i;
  }
  EXPECT_EQ(wanted.batch().num_rows(), 5);
  EXPECT_EQ(wanted.logit_rows, (std::vector<int32_t>{0, 1, 2, 3, 4}));
}

TEST(WantedRows, AreApartWhereOneSequenceEndsAndTheNextBegins) {
  const std::vector<TokenId> tokens = tokens_from(0, 4);
  const std::vector<BatchSequence> sequences = {{{}, 10, 2}, {{}, 12, 2}};
  const std::vector<int32_t> logit_rows = {1, 2};
  const WantedRows wanted = wanted_rows({tokens, sequences, logit_rows});
  ASSERT_EQ(wanted.sequences.size(), 2u);
  EXPECT_EQ(wanted.sequences[0].first_position, 11);
  EXPECT_EQ(wanted.sequences[1].first_position, 12);
}

}  // namespace
}  // namespace quire::model
