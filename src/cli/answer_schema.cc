#include "cli/answer_schema.h"

#include "engine/json_constraint.h"
#include "formats/json.h"
#include "formats/printable.h"

namespace quire::cli {

Result<std::unique_ptr<engine::TokenConstraint>> read_answer_schema(const Environment& env,
                                                                    const std::string& file,
                                                                    const engine::Model& model,
                                                                    std::string_view prompt) {
  constexpr uint64_t kMostBytes = 16 << 20;
  QUIRE_TRY(const std::string text, env.files.read(file, kMostBytes));
  const auto schema = formats::Json::parse(text, formats::printable(file));
  if (!schema.ok()) return Error{ErrorCode::kUsage, schema.error().message};
  QUIRE_TRY(const auto constraints, engine::JsonConstraints::create(model.tokenizer()));
  engine::AnswerStart start;
  if (const auto* chat_template = model.chat_template()) {
    start = engine::answer_start(chat_template->traits().answer_format(), prompt);
  }
  return constraints.schema(*schema, start);
}

}  // namespace quire::cli
