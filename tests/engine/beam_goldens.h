// beam_goldens.h: what Hugging Face's beam search answers (tools/oracle/make_beam_goldens.py).
#pragma once
#include <string>
#include <vector>

#include "engine/beam_search.h"

namespace quire::engine {

struct BeamGolden {
  std::string name;  // the beginning of its JSON
  std::vector<TokenId> prompt;
  BeamSearchOptions options;  // end_tokens holds every end there is
  struct Answer {
    std::vector<TokenId> tokens;
    double score;
  };
  std::vector<Answer> answers;  // best first
};

/// Those of tests/data/beams/<model>.json.
std::vector<BeamGolden> read_beam_goldens(const std::string& model);

}  // namespace quire::engine
