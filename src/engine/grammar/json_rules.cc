#include "engine/grammar/json_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/utf8.h"
#include "formats/json.h"

namespace quire::engine::grammar {
namespace {

constexpr ByteSet kDigits = ByteSet::range('0', '9');
constexpr ByteSet kHex = ByteSet::of("0123456789abcdefABCDEF");
/// Of ASCII, what stands for itself in a string.
constexpr ByteSet kPlain = ByteSet::range(0x20, 0x7F).without(ByteSet::of("\"\\"));
constexpr int32_t kMostIndent = 40;

}  // namespace

JsonRules::JsonRules(ProgramBuilder& builder, const Alphabet& alphabet)
    : builder_(builder), alphabet_(alphabet) {
  const NodeId done = builder_.done();
  digit_ = builder_.rule(builder_.bytes(kDigits, done));
  blank_ = builder_.rule(builder_.bytes(ByteSet::of(" "), done));
  const NodeId plain = builder_.text_start(kPlain, done);
  std::vector<NodeId> ways = {plain};
  if (alphabet_.unicode) ways.push_back(characters(0x80, 0x10FFFF, done));
  key_character_ = builder_.rule(builder_.choice(ways));
  ways.push_back(builder_.literal("\\", escape(done)));
  character_ = builder_.rule(builder_.choice(ways));
  define_numbers();
  define_values();
}

/// What follows a backslash; surrogates come in pairs.
NodeId JsonRules::escape(NodeId next) {
  const NodeId hex1 = builder_.bytes(kHex, next);
  const NodeId hex2 = builder_.bytes(kHex, hex1);
  const NodeId hex3 = builder_.bytes(kHex, hex2);
  const NodeId low = builder_.literal(
      "\\u", builder_.bytes(ByteSet::of("dD"), builder_.bytes(ByteSet::of("cdefCDEF"), hex2)));
  const NodeId high =
      builder_.bytes(ByteSet::of("89abAB"), builder_.bytes(kHex, builder_.bytes(kHex, low)));
  const NodeId after_d = builder_.choice({builder_.bytes(ByteSet::range('0', '7'), hex2), high});
  const NodeId unit = builder_.choice({builder_.bytes(kHex.without(ByteSet::of("dD")), hex3),
                                       builder_.bytes(ByteSet::of("dD"), after_d)});
  return builder_.choice(
      {builder_.bytes(ByteSet::of("\"\\/bfnrt"), next), builder_.literal("u", unit)});
}

NodeId JsonRules::blanks(NodeId next) {
  std::vector<NodeId> ways = {next, builder_.literal(" ", next)};
  if (alphabet_.line_feed) {
    ways.push_back(builder_.literal("\n", builder_.repeat(blank_, 0, kMostIndent, next)));
  }
  return builder_.choice(ways);
}

NodeId JsonRules::one_blank(NodeId next) {
  return builder_.optional(builder_.literal(" ", next), next);
}

NodeId JsonRules::string(int32_t least, int32_t most, NodeId next) {
  const NodeId close = builder_.literal("\"", next);
  return builder_.literal("\"", builder_.repeat(character_, least, most, close));
}

NodeId JsonRules::other_key(const std::vector<std::string>& taken, NodeId next) {
  const NodeId close = builder_.literal("\"", next);
  const NodeId anything = builder_.repeat(key_character_, 0, kUnbounded, close);
  // Along the beginnings of the taken keys, longest first, so that what follows is made before.
  // Leaving them takes a character of ASCII: a key beyond it is cut there, and so never spelled.
  // Nothing goes on after so many bytes of a taken key.
  constexpr size_t kMostFollowed = 128;
  std::map<std::string, ByteSet> beginnings;  // and the bytes that go on with one
  std::set<std::string> keys, dead_ends;
  for (const std::string& key : taken) {
    const std::string spelled_key = quoted(key);
    if (spelled_key.find('\\') != std::string::npos) continue;  // other keys have no escapes
    std::string inside = spelled_key.substr(1, spelled_key.size() - 2);
    const auto ascii_end = std::find_if(inside.begin(), inside.end(), [](char c) { return c < 0; });
    const bool is_ascii = ascii_end == inside.end();
    inside.erase(ascii_end, inside.end());
    if (inside.size() > kMostFollowed) {
      inside.resize(kMostFollowed);
      dead_ends.insert(inside);
    } else if (is_ascii) {
      keys.insert(inside);
    }
    for (size_t i = 0; i < inside.size(); ++i) {
      beginnings[inside.substr(0, i)].add(static_cast<uint8_t>(inside[i]));
    }
    beginnings.try_emplace(inside);
  }
  if (beginnings.empty()) return builder_.literal("\"", anything);
  std::map<std::string, NodeId> nodes;
  for (auto it = beginnings.rbegin(); it != beginnings.rend(); ++it) {
    const auto& [text, followed] = *it;
    std::vector<NodeId> ways;
    if (!keys.contains(text)) ways.push_back(close);
    const ByteSet leaving = dead_ends.contains(text) ? ByteSet() : kPlain.without(followed);
    if (!leaving.empty()) ways.push_back(builder_.bytes(leaving, anything));
    for (int byte = 0; byte < 128; ++byte) {
      if (!followed.contains(static_cast<uint8_t>(byte))) continue;
      const std::string longer = text + static_cast<char>(byte);
      ways.push_back(builder_.bytes(ByteSet::range(byte, byte), nodes.at(longer)));
    }
    nodes.emplace(text, ways.empty() ? builder_.impossible() : builder_.choice(ways));
  }
  return builder_.literal("\"", nodes.at(""));
}

void JsonRules::define_numbers() {
  const NodeId done = builder_.done();
  const auto digits = [&](int32_t least, int32_t most, NodeId next) {
    return builder_.repeat(digit_, least, most, next);
  };
  const NodeId exponent = builder_.bytes(
      ByteSet::of("eE"),
      builder_.optional(builder_.bytes(ByteSet::of("+-"), digits(1, 2, done)), digits(1, 2, done)));
  const NodeId after_point = builder_.optional(exponent, done);
  const NodeId point = builder_.literal(".", digits(1, 17, after_point));
  const auto whole = [&](NodeId next) {
    const NodeId positive =
        builder_.choice({builder_.literal("0", next),
                         builder_.bytes(ByteSet::range('1', '9'), digits(0, 17, next))});
    return builder_.optional(builder_.literal("-", positive), positive);
  };
  number_ = builder_.rule(whole(builder_.choice({point, exponent, done})));
  integer_ = builder_.rule(whole(done));
}

void JsonRules::define_values() {
  const NodeId done = builder_.done();
  value_ = builder_.declare();
  const RuleId item = builder_.rule(builder_.call_deeper(value_, done));
  const NodeId member_value = builder_.literal(":", one_blank(builder_.call_deeper(value_, done)));
  const RuleId member = builder_.rule(string(0, kUnbounded, member_value));
  object_ = builder_.rule(list(*this, {.open = '{', .close = '}'}, member, done));
  array_ = builder_.rule(list(*this, {.open = '[', .close = ']'}, item, done));
  builder_.define(
      value_, builder_.choice({any_object(done), any_array(done), string(0, kUnbounded, done),
                               number(done), builder_.any_of({"true", "false", "null"}, done)}));
}

NodeId list(JsonRules& rules, const ListShape& shape, RuleId element, NodeId next) {
  ProgramBuilder& builder = rules.builder();
  const std::string_view close(&shape.close, 1);
  const std::string_view open(&shape.open, 1);
  const NodeId empty = builder.literal(close, next);
  if (shape.most == 0) return builder.literal(open, empty);
  const NodeId end = rules.blanks(empty);
  const RuleId more =
      builder.rule(builder.literal(",", rules.blanks(builder.call(element, builder.done()))));
  const int32_t most_more = shape.most == kUnbounded ? kUnbounded : shape.most - 1;
  const NodeId first = rules.blanks(
      builder.call(element, builder.repeat(more, std::max(shape.least - 1, 0), most_more, end)));
  return builder.literal(open, shape.least == 0 ? builder.choice({empty, first}) : first);
}

NodeId JsonRules::text_until(std::string_view closer, NodeId next) {
  // By how much of `closer` was just written; failure[i] is the longest border of its first i
  // bytes. Knuth, Morris, Pratt: Fast pattern matching in strings.
  std::vector<size_t> failure(closer.size() + 1, 0);
  for (size_t i = 1, k = 0; i < closer.size(); ++i) {
    while (k > 0 && closer[i] != closer[k]) k = failure[k];
    if (closer[i] == closer[k]) ++k;
    failure[i + 1] = k;
  }
  const auto after = [&](size_t matched, uint8_t byte) {
    while (matched > 0 && static_cast<uint8_t>(closer[matched]) != byte) matched = failure[matched];
    return static_cast<uint8_t>(closer[matched]) == byte ? matched + 1 : matched;
  };
  std::vector<RuleId> written;
  for (size_t i = 0; i < closer.size(); ++i) written.push_back(builder_.declare());
  for (size_t i = 0; i < closer.size(); ++i) {
    std::map<size_t, ByteSet> targets;
    for (int byte = 0; byte < 256; ++byte) {
      targets[after(i, static_cast<uint8_t>(byte))].add(static_cast<uint8_t>(byte));
    }
    std::vector<NodeId> ways;
    for (const auto& [target, set] : targets) {
      const bool closed = target == closer.size();
      ways.push_back(builder_.bytes(
          set, closed ? builder_.done() : builder_.call(written[target], builder_.done())));
    }
    builder_.define(written[i], builder_.choice(ways));
  }
  return builder_.call(written[0], next);
}

namespace {

/// Appends the escapes of what is no ASCII.
void append_escaped(std::string& out, uint32_t code_point) {
  if (code_point < 0x10000) {
    out += fmt::format("\\u{:04x}", code_point);
    return;
  }
  const uint32_t rest = code_point - 0x10000;
  out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
}

}  // namespace

std::string JsonRules::spelled(std::string_view json) const {
  if (alphabet_.unicode) return std::string(json);
  std::string out;
  while (!json.empty()) {
    const Utf8Char next = utf8_next(json);
    const auto bytes = static_cast<size_t>(next.bytes);
    if (bytes == 1) {
      out += json[0];
    } else {
      append_escaped(out, next.code_point);
    }
    json.remove_prefix(bytes);
  }
  return out;
}

std::string JsonRules::quoted(std::string_view text) const {
  return spelled(formats::Json(text).dump());
}

}  // namespace quire::engine::grammar
