#include "engine/json_constraint.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include "engine/constrained_answer.h"
#include "engine/naive_schema.h"

namespace quire::engine {
namespace {

using context::Tokenizer;
using formats::Json;

const JsonConstraints& constraints() {
  static const JsonConstraints kConstraints = JsonConstraints::create(tiny_vocabulary()).value();
  return kConstraints;
}

std::unique_ptr<TokenConstraint> constraint(std::string_view schema) {
  return constraints().schema(parsed(schema)).value();
}

bool permits(std::string_view schema, std::string_view text) {
  return engine::permits(tiny_vocabulary(), *constraint(schema), text);
}

std::string refusal(std::string_view schema) {
  const auto made = constraints().schema(parsed(schema));
  if (made.ok()) return "it was accepted";
  EXPECT_EQ(made.error().code, ErrorCode::kUsage);
  return made.error().message;
}

TEST(JsonConstraint, AllowsAnyObjectAndNothingElse) {
  const auto any = constraints().any_object().value();
  const auto allowed = [&](std::string_view text) {
    return engine::permits(tiny_vocabulary(), *any, text);
  };
  EXPECT_TRUE(allowed("{}"));
  EXPECT_TRUE(allowed(R"({"a": [1, -2.5e3, true, null], "b": {"c": "x\"\n\u00e9"}})"));
  EXPECT_TRUE(allowed("{\n  \"a\": \"b\"\n}"));
  EXPECT_TRUE(allowed("{\"\u00e9\": \"\u20ac\U0001F600\"}"));
  EXPECT_TRUE(allowed(R"({"a": "\ud83d\ude00"})"));
  for (const char* text : {"",
                           "[]",
                           "1",
                           "\"a\"",
                           "{",
                           "{}}",
                           "{,}",
                           "{\"a\"}",
                           "{\"a\": 01}",
                           "{\"a\": 1,}",
                           "{\"a\": .5}",
                           "{\"a\": 1.}",
                           "{\"a\": +1}",
                           "{\"a\": NaN}",
                           "{\"a\": \"\\x\"}",
                           "{\"a\": \"\\ud83d\"}",
                           "{\"a\": \"\\ude00\"}",
                           "{\"a\": \"\n\"}",
                           "{a: 1}",
                           "{'a': 1}",
                           "{\"a\":   1}",
                           "{\"a\": 1}\n",
                           "{\"a\": \"\xff\"}",
                           "{\"a\": \"\xed\xa0\x80\"}"}) {
    EXPECT_FALSE(allowed(text)) << text;
  }
}

TEST(JsonConstraint, HoldsAnObjectToItsProperties) {
  const char* schema = R"({"type": "object", "required": ["name", "age"], "properties": {
      "name": {"type": "string", "minLength": 1, "maxLength": 3}, "nick": {"type": "string"},
      "age": {"type": "integer", "minimum": 0, "maximum": 120}}})";
  EXPECT_TRUE(permits(schema, R"({"name": "abc", "age": 120})"));
  EXPECT_TRUE(permits(schema, R"({"name": "abc", "nick": "", "age": 0})"));
  EXPECT_TRUE(permits(schema, R"({"name":"a","age":7})"));
  EXPECT_FALSE(permits(schema, R"({"name": "", "age": 1})"));
  EXPECT_FALSE(permits(schema, R"({"name": "abcd", "age": 1})"));
  EXPECT_FALSE(permits(schema, R"({"name": "abc"})"));
  EXPECT_FALSE(permits(schema, R"({"name": "abc", "age": 121})"));
  EXPECT_FALSE(permits(schema, R"({"name": "abc", "age": -1})"));
  EXPECT_FALSE(permits(schema, R"({"name": "abc", "age": 1.5})"));
  EXPECT_FALSE(permits(schema, R"({"name": "abc", "age": 1, "other": 1})"));
}

TEST(JsonConstraint, OtherPropertiesMayNotTakeADeclaredName) {
  const char* schema = R"({"properties": {"ab": {"type": "integer"}, "b": {"type": "null"}},
      "additionalProperties": {"type": "string"}})";
  EXPECT_TRUE(permits(schema, R"({"ab": 1, "b": null, "a": "x", "abc": "y", "c": "z", "": "w"})"));
  EXPECT_TRUE(permits(schema, R"({"abc": "y"})"));
  EXPECT_FALSE(permits(schema, R"({"ab": "x"})"));
  EXPECT_FALSE(permits(schema, R"({"a": "x", "ab": "y"})"));
  EXPECT_FALSE(permits(schema, R"({"a": "x", "b": "y"})"));
  EXPECT_FALSE(permits(schema, R"({"a": "x", "\u0062": "y"})"));
}

TEST(JsonConstraint, CountsElementsAndKnowsTuples) {
  const char* counted = R"({"type": "array", "items": {"type": "boolean"}, "minItems": 2,
      "maxItems": 3})";
  EXPECT_FALSE(permits(counted, "[true]"));
  EXPECT_TRUE(permits(counted, "[true, false]"));
  EXPECT_TRUE(permits(counted, "[true,false,true]"));
  EXPECT_FALSE(permits(counted, "[true, false, true, true]"));
  const char* tuple = R"({"type": "array", "prefixItems": [{"type": "integer"},
      {"type": "string"}], "items": {"type": "null"}, "minItems": 1})";
  EXPECT_FALSE(permits(tuple, "[]"));
  EXPECT_TRUE(permits(tuple, "[1]"));
  EXPECT_TRUE(permits(tuple, R"([1, "a", null, null])"));
  EXPECT_FALSE(permits(tuple, R"([1, null])"));
  EXPECT_TRUE(permits(R"({"type": "array", "maxItems": 0})", "[]"));
  EXPECT_TRUE(permits(R"({"type": "array", "items": false})", "[]"));
  EXPECT_FALSE(permits(R"({"type": "array", "items": false})", "[1]"));
}

TEST(JsonConstraint, KnowsFixedValuesAndSeveralTypes) {
  const char* schema = R"({"enum": ["a", "ab", 1, 1.5, null, [1, {"x": "y"}], ""]})";
  for (const char* text : {"\"a\"", "\"ab\"", "1", "1.5", "null", "[1,{\"x\":\"y\"}]", "\"\""}) {
    EXPECT_TRUE(permits(schema, text)) << text;
  }
  for (const char* text : {"\"b\"", "\"abc\"", "15", "nul", "[1]"}) {
    EXPECT_FALSE(permits(schema, text)) << text;
  }
  EXPECT_FALSE(permits(R"({"enum": ["a", 1], "type": "integer"})", "\"a\""));
  EXPECT_TRUE(permits(R"({"type": ["integer", "null"]})", "null"));
  EXPECT_TRUE(permits(R"({"type": ["integer", "null"]})", "12"));
  EXPECT_FALSE(permits(R"({"type": ["integer", "null"]})", "\"12\""));
  EXPECT_TRUE(permits(R"({"const": "caf\u00e9"})", "\"caf\u00e9\""));
  EXPECT_TRUE(permits("{}", "[{}, 1, \"a\", null]"));
  EXPECT_TRUE(permits("true", "3"));
}

TEST(JsonConstraint, CombinesSchemas) {
  const char* schema = R"({"$defs": {"base": {"type": "object", "required": ["kind"],
      "properties": {"kind": {"type": "string"}}}},
      "anyOf": [{"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"kind": {"const": "a"},
      "n": {"type": "integer"}}, "required": ["n"]}]}, {"type": "null"}]})";
  EXPECT_TRUE(permits(schema, R"({"kind": "a", "n": 1})"));
  EXPECT_TRUE(permits(schema, "null"));
  EXPECT_FALSE(permits(schema, R"({"kind": "b", "n": 1})"));
  EXPECT_FALSE(permits(schema, R"({"kind": "a"})"));
  const char* closed = R"({"allOf": [{"properties": {"a": {}}, "additionalProperties": false},
      {"properties": {"a": {"type": "integer"}, "b": {}}}]})";
  EXPECT_TRUE(permits(closed, R"({"a": 1})"));
  EXPECT_FALSE(permits(closed, R"({"a": 1, "b": 1})"));
}

TEST(JsonConstraint, FollowsReferencesToItself) {
  const char* tree = R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
      "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"},
      {"type": "null"}]}}, "required": ["v", "next"]}}})";
  EXPECT_TRUE(permits(tree, R"({"v": 1, "next": {"v": 2, "next": null}})"));
  EXPECT_FALSE(permits(tree, R"({"v": 1, "next": {"v": 2}})"));
  EXPECT_TRUE(permits(R"({"type": "array", "items": {"$ref": "#"}})", "[[], [[]]]"));
  EXPECT_TRUE(permits(R"({"properties": {"a/b%": {"type": "null"}, "c": {"$ref":
      "#/properties/a~1b%25"}}, "required": ["c"]})",
                      R"({"c": null})"));
}

TEST(JsonConstraint, BoundsNumbers) {
  const auto within = [](const char* bounds, const char* text) {
    return permits(std::string(R"({"type": "number", )") + bounds + "}", text);
  };
  EXPECT_TRUE(within(R"("minimum": 0, "maximum": 1)", "0.25"));
  EXPECT_TRUE(within(R"("minimum": 0, "maximum": 1)", "1"));
  EXPECT_TRUE(within(R"("minimum": 0, "maximum": 1)", "1.00"));
  EXPECT_FALSE(within(R"("minimum": 0, "maximum": 1)", "1.01"));
  EXPECT_FALSE(within(R"("minimum": 0, "maximum": 1)", "-0.5"));
  EXPECT_FALSE(within(R"("minimum": 0, "maximum": 1)", "1e1"));
  EXPECT_FALSE(within(R"("exclusiveMinimum": 0)", "0"));
  EXPECT_FALSE(within(R"("exclusiveMinimum": 0)", "0.00"));
  EXPECT_TRUE(within(R"("exclusiveMinimum": 0)", "0.001"));
  EXPECT_TRUE(within(R"("minimum": 0.125, "maximum": 0.5)", "0.125"));
  EXPECT_FALSE(within(R"("minimum": 0.125, "maximum": 0.5)", "0.124"));
  EXPECT_TRUE(within(R"("minimum": -1.5, "maximum": -0.5)", "-1.25"));
  EXPECT_FALSE(within(R"("minimum": -1.5, "maximum": -0.5)", "-0.25"));
  EXPECT_FALSE(within(R"("minimum": -1.5, "maximum": -0.5)", "-1.6"));
  EXPECT_TRUE(permits(R"({"type": "integer", "minimum": 95, "maximum": 1005})", "100"));
  EXPECT_FALSE(permits(R"({"type": "integer", "minimum": 95, "maximum": 1005})", "1006"));
  EXPECT_FALSE(permits(R"({"type": "integer", "minimum": 95, "maximum": 1005})", "94"));
  EXPECT_TRUE(permits(R"({"type": "integer", "minimum": -20, "exclusiveMaximum": 0})", "-7"));
  EXPECT_FALSE(permits(R"({"type": "integer", "minimum": -20, "exclusiveMaximum": 0})", "0"));
  EXPECT_TRUE(permits(R"({"type": "integer", "maximum": 9223372036854775807})", "123456"));
}

TEST(JsonConstraint, FollowsPatterns) {
  const auto matches = [](const char* pattern, const char* text) {
    Json schema;
    schema.set("type", "string");
    schema.set("pattern", pattern);
    return engine::permits(tiny_vocabulary(), *constraints().schema(schema).value(), text);
  };
  EXPECT_TRUE(matches("^[A-Z]{2,3}-\\d+$", "\"ABC-123\""));
  EXPECT_FALSE(matches("^[A-Z]{2,3}-\\d+$", "\"A-123\""));
  EXPECT_TRUE(matches("b", "\"abc\""));
  EXPECT_FALSE(matches("^b", "\"abc\""));
  EXPECT_TRUE(matches("^(yes|no)?$", "\"\""));
  EXPECT_TRUE(matches("^(yes|no)?$", "\"no\""));
  EXPECT_TRUE(matches("^[^a]$", "\"\u20ac\""));
  EXPECT_FALSE(matches("^[^a]$", "\"a\""));
  EXPECT_TRUE(matches("^\"\\\\$", "\"\\\"\\\\\""));
  EXPECT_TRUE(matches("^\\n$", "\"\\n\""));
  EXPECT_TRUE(permits(R"({"format": "date"})", "\"2024-12-31\""));
  EXPECT_FALSE(permits(R"({"format": "date"})", "\"2024-13-31\""));
}

TEST(JsonConstraint, RefusesWhatItCannotFollowByNameAndPlace) {
  EXPECT_EQ(refusal(R"({"properties": {"a": {"not": {}}}})"),
            "the schema at #/properties/a: not is not supported");
  EXPECT_EQ(refusal(R"({"type": "array", "uniqueItems": true})"),
            "the schema at #: uniqueItems is not supported");
  EXPECT_EQ(refusal(R"({"items": {"type": "text"}})"),
            "the schema at #/items: type \"text\" is none of JSON's");
  EXPECT_EQ(refusal(R"({"pattern": "(?=a)b"})"),
            "the schema at #: the pattern (?=a)b looks around, which a grammar cannot follow");
  EXPECT_EQ(refusal(R"({"pattern": "(a"})"),
            "the schema at #: the pattern (a has a ( without its )");
  EXPECT_EQ(refusal(R"({"pattern": "^(a{100}){100}$"})"),
            "the schema at #: the pattern ^(a{100}){100}$ counts repetitions of repetitions beyond "
            "4,096");
  EXPECT_EQ(refusal(R"({"minLength": -1})"),
            "the schema at #: minLength must be a whole number, 0 or more");
  EXPECT_EQ(refusal(R"({"$ref": "https://example.com/x.json"})"),
            "the schema at #: $ref https://example.com/x.json names nothing in this document; only "
            "references such as #/$defs/NAME are followed");
  EXPECT_EQ(refusal(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})"),
            "the schema at #/anyOf/0: # refers to itself with nothing in between");
  EXPECT_EQ(refusal("[]"), "the schema at #: a schema must be an object or a boolean");
  EXPECT_EQ(refusal(R"({"properties": {"a": 3}})"),
            "the schema at #/properties/a: a schema must be an object or a boolean");
}

TEST(JsonConstraint, RefusesASchemaThatNoFiniteAnswerSatisfies) {
  const std::string never = "no answer of finite size satisfies the schema";
  EXPECT_EQ(refusal(R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})").find(never), 0u);
  EXPECT_EQ(refusal("false").find(never), 0u);
  EXPECT_EQ(refusal(R"({"enum": []})").find(never), 0u);
  EXPECT_EQ(refusal(R"({"type": "integer", "minimum": 3, "maximum": 2})").find(never), 0u);
  EXPECT_EQ(refusal(R"({"allOf": [{"type": "string"}, {"type": "null"}]})").find(never), 0u);
}

TEST(JsonConstraint, NestsAnswersAtMostAsDeepAsReadersOfJsonDo) {
  const auto any = constraints().any_object().value();
  std::string deep;
  for (int i = 0; i < 80; ++i) deep += "{\"a\":";
  EXPECT_TRUE(engine::permits(tiny_vocabulary(), *any, deep + "1" + std::string(80, '}')));
  for (int i = 0; i < 40; ++i) deep += "{\"a\":";
  EXPECT_FALSE(engine::permits(tiny_vocabulary(), *any, deep + "1" + std::string(120, '}')));
}

TEST(JsonConstraint, AllowsAnEndExactlyWhereTheValueIsComplete) {
  const auto number = constraint(R"({"type": "integer"})");
  const TokenId end = tiny_vocabulary().end_of_generation().front();
  const auto may_end = [&] {
    const auto allowed = allowed_tokens(*number, tiny_vocabulary().vocab_size());
    return std::find(allowed.begin(), allowed.end(), end) != allowed.end();
  };
  EXPECT_FALSE(may_end());
  for (const TokenId id : tiny_vocabulary().encode("-", context::Special::kPlain))
    number->accept(id);
  EXPECT_FALSE(may_end());
  for (const TokenId id : tiny_vocabulary().encode("1", context::Special::kPlain))
    number->accept(id);
  EXPECT_TRUE(may_end());
  number->accept(end);
  EXPECT_EQ(allowed_tokens(*number, tiny_vocabulary().vocab_size()).size(),
            tiny_vocabulary().end_of_generation().size());
}

TEST(JsonConstraint, StartsAfterTheReasoningThatThePromptOpened) {
  const auto any = constraints().any_object({.reasoning_closer = "</think>"}).value();
  const auto allowed = [&](std::string_view text) {
    return engine::permits(tiny_vocabulary(), *any, text);
  };
  EXPECT_TRUE(allowed("so {\"x\" < 3 </thin </think>\n\n{\"a\": 1}"));
  EXPECT_TRUE(allowed("</think>{}"));
  EXPECT_FALSE(allowed("{}"));
  EXPECT_FALSE(allowed("so</think> no"));
}

TEST(JsonConstraint, AFreshOneBeginsAgain) {
  const auto first = constraint(R"({"const": "ab"})");
  first->accept(tiny_vocabulary().encode("\"", context::Special::kPlain).front());
  const auto second = first->fresh();
  EXPECT_NE(allowed_tokens(*first, tiny_vocabulary().vocab_size()),
            allowed_tokens(*second, tiny_vocabulary().vocab_size()));
  EXPECT_TRUE(engine::permits(tiny_vocabulary(), *first, "\"ab\""));
}

/// Runs on a thread with 256 KiB of stack, as a server's may have.
template <class Work>
void on_a_small_stack(Work work) {
  pthread_attr_t attributes;
  ASSERT_EQ(::pthread_attr_init(&attributes), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<Work*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(::pthread_create(&thread, &attributes, run, &work), 0);
  ASSERT_EQ(::pthread_join(thread, nullptr), 0);
  ::pthread_attr_destroy(&attributes);
}

TEST(JsonConstraint, HostileSchemasEndInAnErrorOrAGrammarOnASmallStack) {
  std::vector<std::string> schemas = {
      R"({"pattern": ")" + std::string(60'000, '(') + "\"}",
      R"({"pattern": ")" + std::string(90, '(') + "a" + std::string(90, ')') + "\"}",
      R"({"pattern": "^(a{1000000}){1000000}$"})",
      R"({"maxLength": 1000000000, "minLength": 999999999})",
      R"({"items": {"type": "null"}, "minItems": 1e18})",
      R"({"minimum": 1e300})",
      R"({"pattern": "(a*)*"})"};
  std::string deep;
  for (int i = 0; i < 60; ++i) deep += R"({"items":)";
  schemas.push_back(deep + "{}" + std::string(60, '}'));
  std::string wide = R"({"anyOf": [)";
  std::string properties = R"({"properties": {)";
  for (int i = 0; i < 1000; ++i) {
    const std::string comma = i == 0 ? "" : ",";
    wide += comma + R"({"properties": {"a)" + std::to_string(i) + R"(": {"$ref": "#"}}})";
    properties += comma + "\"p" + std::to_string(i) + R"(": {"type": "integer", "minimum": )" +
                  std::to_string(i) + "}";
  }
  schemas.push_back(wide + "]}");
  schemas.push_back(properties + "}}");
  std::string product = R"({"allOf": [)";
  for (int i = 0; i < 30; ++i) {
    product += std::string(i == 0 ? "" : ",") +
               R"({"anyOf": [{"minLength": 1}, {"maxLength": 9}, {"minLength": 2}]})";
  }
  schemas.push_back(product + "]}");
  schemas.push_back(R"({"additionalProperties": true, "properties": {")" +
                    std::string(500'000, 'k') + R"(": {}}})");
  on_a_small_stack([&] {
    for (const std::string& schema : schemas) {
      const auto made = constraints().schema(parsed(schema));
      if (!made.ok()) {
        EXPECT_FALSE(made.error().message.empty());
        continue;
      }
      EXPECT_FALSE(allowed_tokens(**made, tiny_vocabulary().vocab_size()).empty())
          << schema.substr(0, 80);
    }
  });
}

/// A schema that can be satisfied, of at most that nesting.
Json random_schema(Random& random, int32_t depth) {
  const auto chance = [&](size_t one_in) { return below(random, one_in) == 0; };
  const auto small = [&](size_t limit) { return static_cast<int64_t>(below(random, limit)); };
  Json schema{Json::Object{}};
  switch (below(random, depth > 0 ? 10 : 6)) {
    case 0: {
      schema.set("type", "string");
      const int64_t least = small(4);
      if (chance(2)) schema.set("minLength", least);
      if (chance(2)) schema.set("maxLength", least + small(5));
      break;
    }
    case 1: {
      const int64_t least = small(3000) - 1500;
      schema.set("type", chance(2) ? "integer" : "number");
      if (chance(2)) schema.set(chance(2) ? "minimum" : "exclusiveMinimum", Json(least));
      if (chance(2)) schema.set("maximum", Json(static_cast<double>(least + small(200)) + 1.5));
      break;
    }
    case 2:
      schema.set("type", Json(Json::Array{Json("boolean"), Json("null")}));
      break;
    case 3:
      schema.set("enum", Json(Json::Array{Json("red"), Json("re"), Json(12), Json(1.25), Json(),
                                          Json("\u00e9\"\n")}));
      break;
    case 4: {
      const char* patterns[] = {"^a{2,4}$", "b|c", "^[0-9]{3}(-[0-9]{2})?$", "^(x|yz)+$", "^\\w*$"};
      schema.set("type", "string");
      schema.set("pattern", patterns[below(random, 5)]);
      break;
    }
    case 5:
      break;
    case 6: {
      const int64_t least = small(3);
      schema.set("type", "array");
      schema.set("items", random_schema(random, depth - 1));
      if (chance(2)) schema.set("minItems", least);
      if (chance(2)) schema.set("maxItems", least + small(3));
      if (chance(3)) {
        schema.set("prefixItems", Json(Json::Array{random_schema(random, depth - 1)}));
      }
      break;
    }
    case 7:
    case 8: {
      schema.set("type", "object");
      Json properties{Json::Object{}};
      Json required{Json::Array{}};
      for (const char* key : {"a", "ab", "b c", "\u00fc"}) {
        if (chance(2)) properties.set(key, random_schema(random, depth - 1));
        if (chance(3)) required.push_back(key);
      }
      schema.set("properties", std::move(properties));
      schema.set("required", std::move(required));
      if (chance(2)) schema.set("additionalProperties", random_schema(random, depth - 1));
      break;
    }
    default: {
      Json branches{Json::Array{}};
      for (int64_t i = small(3); i >= 0; --i) {
        branches.push_back(random_schema(random, depth - 1));
      }
      schema.set(chance(2) ? "anyOf" : "oneOf", std::move(branches));
      break;
    }
  }
  return schema;
}

/// Of random schemas, whatever is said at random under the constraint satisfies the schema.
void expect_valid_answers(const Tokenizer& tokenizer, uint64_t seed, int32_t schemas,
                          int32_t wild_tokens) {
  const JsonConstraints made = JsonConstraints::create(tokenizer).value();
  Random random(seed);
  for (int32_t i = 0; i < schemas; ++i) {
    const Json schema = random_schema(random, 3);
    const auto constraint = made.schema(schema);
    ASSERT_TRUE(constraint.ok()) << constraint.error().message << "\n" << schema.dump();
    const RandomAnswer answer = random_answer(tokenizer, **constraint, random, wild_tokens);
    ASSERT_TRUE(answer.finished) << schema.dump() << "\n" << answer.text.substr(0, 500);
    const auto value = Json::parse(answer.text, "an answer");
    ASSERT_TRUE(value.ok()) << value.error().message << "\n" << answer.text;
    ASSERT_TRUE(NaiveSchema(schema).accepts(*value)) << schema.dump() << "\n" << answer.text;
  }
}

TEST(JsonConstraint, WhateverIsSaidAtRandomSatisfiesTheSchema) {
  expect_valid_answers(tiny_vocabulary(), 1, 250, 40);
}

TEST(JsonConstraint, WhateverIsSaidAtRandomSatisfiesTheSchemaWithRealVocabularies) {
  int32_t found = 0;
  for (const char* name : {"qwen3", "mistral_v1"}) {
    const auto tokenizer =
        tokenizer_of(std::string(QUIRE_SOURCE_DIR "/../shared/tokenizers/") + name);
    if (!tokenizer) continue;
    ++found;
    expect_valid_answers(*tokenizer, 2, 4, 12);
    if (HasFatalFailure()) return;
  }
  if (found == 0) GTEST_SKIP() << "needs ../shared/tokenizers";
}

}  // namespace
}  // namespace quire::engine
