#include "cli/pieces.h"

#include <gtest/gtest.h>

#include "cli/prompt_input.h"

namespace quire::cli {
namespace {

TEST(Pieces, ShowBytesOfAnIncompleteCharacter) {
  EXPECT_EQ(shown_piece("a\xE7\x9A"), "a<0xE7><0x9A>");
  EXPECT_EQ(shown_piece("日"), "日");
}

TEST(Pieces, FitOnOneLine) {
  EXPECT_EQ(one_line("a\n\tb\x01"), "a\\n\\tb\\x01");
}

std::string joined(const std::vector<std::string>& pieces) {
  return join_by_blank_line(pieces);
}

TEST(JoinByBlankLine, PutsOneBlankLineBetweenPieces) {
  EXPECT_EQ(joined({"a", "b"}), "a\n\nb");
  EXPECT_EQ(joined({"a\n", "b"}), "a\n\nb");
  EXPECT_EQ(joined({"a\n\n", "b"}), "a\n\nb");
}

TEST(JoinByBlankLine, LeavesTheBytesOfASinglePieceAlone) {
  const std::string bytes("\xEF\xBB\xBF a\0b\r\n", 9);
  EXPECT_EQ(joined({bytes}), bytes);
  EXPECT_EQ(joined({""}), "");
  EXPECT_EQ(joined({"", bytes, ""}), bytes);
}

}  // namespace
}  // namespace quire::cli
