// open_mode.h: how much of a model's files must be there.
#pragma once

namespace quire::formats {

enum class OpenMode {
  kWeights,       // every file complete, every tensor inside its file
  kMetadataOnly,  // metadata, config and tokenizer suffice: weights may be cut off or missing
};

}  // namespace quire::formats
