// What keys do to a text and how it lies on the screen, without a terminal.
#include <gmock/gmock.h>

#include "cli/graphemes.h"
#include "cli/key_decoder.h"
#include "cli/line_buffer.h"
#include "cli/line_editor.h"

namespace quire::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// e + combining acute; a family of three joined by zero-width joiners; a flag of two letters.
constexpr std::string_view kEAcute = "e\xCC\x81";
constexpr std::string_view kFamily =
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7";
constexpr std::string_view kFlag = "\xF0\x9F\x87\xAF\xF0\x9F\x87\xB5";

TEST(Graphemes, AreWhatAReaderTakesForOneCharacter) {
  for (const std::string_view cluster : {kEAcute, kFamily, kFlag}) {
    const std::string text = std::string(cluster) + "x";
    EXPECT_EQ(first_grapheme(text), cluster.size());
    EXPECT_EQ(last_grapheme("x" + std::string(cluster)), cluster.size());
  }
  EXPECT_EQ(last_grapheme("ab\n" + std::string(kFlag) + std::string(kFlag)), kFlag.size());
}

TEST(Graphemes, FillOneOrTwoColumns) {
  EXPECT_EQ(text_width("abc"), 3);
  EXPECT_EQ(text_width("日本"), 4);
  EXPECT_EQ(text_width(kEAcute), 1);
  EXPECT_EQ(text_width(kFamily), 2);
  EXPECT_EQ(text_width("\xff"), 1);
}

TEST(LineBuffer, DeletesAWholeGraphemeAtATime) {
  LineBuffer buffer;
  buffer.insert("a" + std::string(kFamily) + std::string(kEAcute));
  buffer.backspace();
  EXPECT_EQ(buffer.text(), "a" + std::string(kFamily));
  buffer.left();
  EXPECT_EQ(buffer.cursor(), 1u);
  buffer.delete_right();
  EXPECT_EQ(buffer.text(), "a");
}

TEST(LineBuffer, DoesNothingAtItsEnds) {
  LineBuffer buffer;
  buffer.backspace();
  buffer.left();
  buffer.right();
  buffer.delete_right();
  buffer.delete_word_left();
  EXPECT_EQ(buffer.text(), "");
}

TEST(LineBuffer, MovesByWordAndByLine) {
  LineBuffer buffer;
  buffer.insert("one two\nthree four");
  buffer.word_left();
  EXPECT_EQ(buffer.cursor(), 14u);
  buffer.home();
  EXPECT_EQ(buffer.cursor(), 8u);
  buffer.left();
  buffer.home();
  EXPECT_EQ(buffer.cursor(), 0u);
  buffer.end();
  EXPECT_EQ(buffer.cursor(), 7u);
  buffer.word_right();
  EXPECT_EQ(buffer.cursor(), 13u);
}

TEST(LineBuffer, PutsBackWhatWasCut) {
  LineBuffer buffer;
  buffer.insert("keep cut");
  buffer.delete_word_left();
  EXPECT_EQ(buffer.text(), "keep ");
  buffer.home();
  buffer.yank();
  EXPECT_EQ(buffer.text(), "cutkeep ");
  buffer.cut_right();
  EXPECT_EQ(buffer.text(), "cut");
}

TEST(KeyDecoder, UnderstandsArrowsOfBothKinds) {
  KeyDecoder keys;
  EXPECT_THAT(
      keys.push("\x1b[A\x1bOB\x1b[1;5D"),
      ElementsAre(KeyPress{Key::kUp, ""}, KeyPress{Key::kDown, ""}, KeyPress{Key::kWordLeft, ""}));
}

TEST(KeyDecoder, WaitsForTheRestOfACharacterOrSequence) {
  KeyDecoder keys;
  EXPECT_THAT(keys.push("\xE6\x97"), IsEmpty());
  EXPECT_THAT(keys.push("\xA5"), ElementsAre(KeyPress{Key::kText, "日"}));
  EXPECT_THAT(keys.push("\x1b["), IsEmpty());
  EXPECT_THAT(keys.push("3~"), ElementsAre(KeyPress{Key::kDelete, ""}));
}

TEST(KeyDecoder, GivesAPasteAsOneTextWithItsLineBreaks) {
  KeyDecoder keys;
  EXPECT_THAT(keys.push("\x1b[200~one\rtw"), IsEmpty());
  EXPECT_THAT(keys.push("o\r\n\x1b[201~\r"),
              ElementsAre(KeyPress{Key::kText, "one\ntwo\n"}, KeyPress{Key::kEnter, ""}));
}

TEST(KeyDecoder, SwallowsWhatItDoesNotKnow) {
  KeyDecoder keys;
  EXPECT_THAT(keys.push("\x1b[99;7u\xff\x1a"), IsEmpty());
  EXPECT_THAT(keys.push("a"), ElementsAre(KeyPress{Key::kText, "a"}));
}

TEST(LayOut, NeverLetsAWideCharacterCrossTheEdge) {
  const ScreenLayout layout = lay_out("abc日d", 6, 2, 6);
  EXPECT_EQ(layout.drawn, "abc\r\n日d");
  EXPECT_EQ(layout.cursor_row, 1);
  EXPECT_EQ(layout.cursor_column, 2);
}

TEST(LayOut, GoesToTheNextRowWhenOneIsFull) {
  const ScreenLayout layout = lay_out("abcd", 4, 2, 6);
  EXPECT_EQ(layout.cursor_row, 1);
  EXPECT_EQ(layout.cursor_column, 0);
  EXPECT_EQ(layout.last_row, 1);
}

TEST(LayOut, IndentsTheLinesOfAMessage) {
  const ScreenLayout layout = lay_out("a\nb", 1, 2, 80);
  EXPECT_EQ(layout.drawn, "a\r\n  b");
  EXPECT_EQ(layout.cursor_row, 0);
  EXPECT_EQ(layout.cursor_column, 3);
  EXPECT_EQ(layout.last_row, 1);
}

TEST(LayOut, DrawsNoControlCharacters) {
  EXPECT_EQ(lay_out("a\x1b\tb", 0, 0, 80).drawn, "a?    b");
}

}  // namespace
}  // namespace quire::cli
