// added_tokens.h: finds the tokens that are matched as whole strings before all else.
//
// Leftmost, then longest, as Hugging Face. Special tokens are inert where the caller says so: one
// that lies wholly in inert text is passed over as Hugging Face passes over it; one that reaches
// across the border of inert text does not exist, so that a message can neither complete a control
// token of the template nor swallow the start of one. Immutable; any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "context/tokenizer.h"

namespace quire::context {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool special = false;
  bool lstrip = false;       // swallows the white space before it
  bool rstrip = false;       // and after it
  bool single_word = false;  // only where no word character touches it
  bool normalized = false;   // sought in the normalized text
};

/// A stretch of a text: an added token, or text between two.
struct AddedSpan {
  ByteRange range;
  int32_t id = -1;  // -1: text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Of equal contents the first counts. Empty contents are ignored.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  /// Cuts `text` into spans that are not empty. `inert` ascends without overlap.
  std::vector<AddedSpan> split(std::string_view text, std::span<const ByteRange> inert) const;

 private:
  struct Node {
    uint32_t first_edge = 0;
    uint16_t num_edges = 0;
    int32_t token = -1;  // index into tokens_ of the content that ends here
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  class Splitter;

  void build_trie();
  /// The node below `node` by that byte, or 0 (the root, which is below none).
  uint32_t step(uint32_t node, uint8_t byte) const;

  std::vector<AddedToken> tokens_;  // by content
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;      // those of a node are contiguous and ascend by byte
  std::vector<uint32_t> roots_;  // [256]: step(0, byte)
};

}  // namespace quire::context
