// tokenizer_export.h: the tokenizer and chat template of a Hugging Face folder as keys of a GGUF
// file.
//
// GGUF has a name for a pre-tokenizer where tokenizer.json has its parts, and scores where it has
// merges, so not every tokenizer can be written. What was set is read back and must give the same
// ids for every token's text and for texts that tokenizers are known to stumble over; else the
// folder is refused in a sentence. Pure but for reading the files. Keys: ggml's docs/gguf.md.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/gguf_writer.h"
#include "formats/model_files.h"

namespace quire::context {

/// Sets tokenizer.ggml.* and tokenizer.chat_template. The model has `vocab` embeddings: ids beyond
/// those are left out, ids without a token get a name. Returns remarks on what GGUF cannot say,
/// a sentence each.
Result<std::vector<std::string>> export_tokenizer(const formats::ModelFiles& files, int64_t vocab,
                                                  formats::GgufWriter& writer);

}  // namespace quire::context
