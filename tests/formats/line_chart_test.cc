#include "formats/line_chart.h"

#include <gmock/gmock.h>

namespace quire::formats {
namespace {

using ::testing::HasSubstr;

TEST(LineChart, StepsAreRound) {
  EXPECT_EQ(round_step(8192.0, 8, LineChart::Unit::kCount), 2000.0);
  EXPECT_EQ(round_step(100.0, 10, LineChart::Unit::kCount), 10.0);
  EXPECT_EQ(round_step(3.0, 8, LineChart::Unit::kCount), 1.0);
  EXPECT_EQ(round_step(6.0 * 1024, 6, LineChart::Unit::kBytes), 1024.0);
}

TEST(LineChart, EscapesWhatXmlWouldRead) {
  const std::string svg =
      draw_svg({.title = "a < b & \"c\"\x01", .subtitle = "", .x_name = "", .lines = {}});
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; &quot;c&quot; "));
}

TEST(LineChart, NamesEveryLineWhereItEnds) {
  const std::string svg = draw_svg(
      {.title = "t",
       .subtitle = "",
       .x_name = "tokens",
       .lines = {{.name = "flat", .points = {{0.0, 5.0}, {10.0, 5.0}}},
                 {.name = "same", .points = {{0.0, 5.0}, {10.0, 5.0}}},
                 {.name = "dots", .points = {{1.0, 1.0}}, .style = ChartLine::Style::kDots}}});
  for (const char* name : {">flat<", ">same<", ">dots<"}) EXPECT_THAT(svg, HasSubstr(name));
  EXPECT_THAT(svg, HasSubstr("<circle"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(LineChart, IsCalmWithoutLines) {
  const std::string svg = draw_svg({.title = "", .subtitle = "", .x_name = "", .lines = {}});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

}  // namespace
}  // namespace quire::formats
