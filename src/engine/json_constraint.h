// json_constraint.h: answers that must be JSON, satisfy a JSON schema, or call a tool.
//
// JsonConstraints is made once for a vocabulary (some 10 to 100 ms) and then makes constraints,
// each for one request. What they allow is always JSON that satisfies the schema, and can always be
// finished; the end of generation is allowed exactly where the value is complete. A schema that
// cannot be followed is refused in one sentence that names the keyword and its place.
// JsonConstraints is immutable: any number of threads. A constraint: one thread at a time; those of
// one request share what they learned under a lock, so each may have its own.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "context/answer_format.h"
#include "context/tokenizer.h"
#include "engine/token_constraint.h"
#include "formats/json.h"

namespace quire::engine {

/// What precedes the constrained part of an answer.
struct AnswerStart {
  /// What closes the reasoning that the prompt has opened ("</think>"): until it comes, anything
  /// may be said. Empty: the constraint holds from the first token.
  std::string reasoning_closer;
};

/// Of an answer to a prompt that ends so: a template may have opened the reasoning already.
AnswerStart answer_start(const context::AnswerFormat& format, std::string_view prompt);

/// Which tools must be called.
struct ToolChoice {
  std::optional<std::string> name;  // absent: any of them
  int32_t most_calls = 1;           // one after the other
};

struct ConstraintVocabulary;

class JsonConstraints {
 public:
  /// `end_tokens` are further ends of generation, beyond the tokenizer's. Refuses a vocabulary that
  /// has no end, or cannot spell ASCII. `tokenizer` must outlive this and its constraints.
  static Result<JsonConstraints> create(const context::Tokenizer& tokenizer,
                                        std::span<const TokenId> end_tokens = {});
  JsonConstraints(JsonConstraints&&) noexcept;
  JsonConstraints& operator=(JsonConstraints&&) noexcept;
  ~JsonConstraints();

  /// An answer that satisfies `schema`: an object or a boolean. kUsage says why not.
  Result<std::unique_ptr<TokenConstraint>> schema(const formats::Json& schema,
                                                  const AnswerStart& start = {}) const;
  /// Any JSON object.
  Result<std::unique_ptr<TokenConstraint>> any_object(const AnswerStart& start = {}) const;
  /// Calls in the model's own format of functions in `tools`, OpenAI's array of definitions, with
  /// arguments that satisfy their `parameters`. `template_source` tells dialects apart. kUsage if
  /// the tool is not there; kUnsupported if the format cannot be held to.
  Result<std::unique_ptr<TokenConstraint>> tool_calls(context::ToolCallFormat format,
                                                      std::string_view template_source,
                                                      const formats::Json& tools,
                                                      const ToolChoice& choice,
                                                      const AnswerStart& start = {}) const;

 private:
  explicit JsonConstraints(std::shared_ptr<const ConstraintVocabulary> vocabulary);
  std::shared_ptr<const ConstraintVocabulary>
      vocabulary_;  // shared: constraints may outlive what made them
};

}  // namespace quire::engine
