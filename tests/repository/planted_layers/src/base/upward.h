// upward.h: a header that breaks the rule of layers, so that tools/check_layers.py can prove
// itself.
#pragma once
#include "engine/engine.h"
