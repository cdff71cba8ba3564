// descriptions.h: the constants that the files of this folder define.
#pragma once
#include "model/architecture.h"

namespace quire::model {

extern const Architecture kGemma3;
extern const Architecture kLlama;

}  // namespace quire::model
