// descriptions.h: the constants that the files of this folder define.
#pragma once
#include "model/architecture.h"

namespace quire::model {

extern const Architecture kFalcon;
extern const Architecture kGemma2;
extern const Architecture kGemma3;
extern const Architecture kGpt2;
extern const Architecture kGranite;
extern const Architecture kLlama;
extern const Architecture kOlmo2;
extern const Architecture kPhi3;
extern const Architecture kQwen2;
extern const Architecture kQwen2Moe;
extern const Architecture kQwen3;
extern const Architecture kQwen3Moe;
extern const Architecture kSmolLm3;
extern const Architecture kStarcoder;
extern const Architecture kStarcoder2;

}  // namespace quire::model
