#include "context/tokenizer/string_index.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace quire::context {

void StringList::reserve(size_t strings, size_t bytes) {
  ends_.reserve(strings);
  bytes_.reserve(bytes);
}

void StringList::push_back(std::string_view text) {
  bytes_ += text;
  ends_.push_back(bytes_.size());
}

uint64_t hash_number(uint64_t number) {  // the finalizer of SplitMix64
  number ^= number >> 30;
  number *= 0xBF58476D1CE4E5B9u;
  number ^= number >> 27;
  number *= 0x94D049BB133111EBu;
  return number ^ number >> 31;
}

uint64_t hash_text(std::string_view text) {
  uint64_t hash = text.size();
  while (text.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, text.data(), 8);
    hash = hash_number(hash ^ word);
    text.remove_prefix(8);
  }
  uint64_t rest = 0;
  if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
  return hash_number(hash + 0x9E3779B97F4A7C15u ^ rest);
}

void StringIndex::reserve(size_t entries) {
  slots_.assign(std::bit_ceil(entries * 2 + 2), Slot{});
  mask_ = slots_.size() - 1;
}

bool StringIndex::insert(int32_t i) {
  const std::string_view text = (*strings_)[static_cast<size_t>(i)];
  const uint64_t hash = hash_text(text);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t slot = hash & mask_;
  for (; slots_[slot].number >= 0; slot = (slot + 1) & mask_) {
    const Slot& taken = slots_[slot];
    if (taken.tag == tag && (*strings_)[static_cast<size_t>(taken.number)] == text) return false;
  }
  slots_[slot] = {i, tag};
  return true;
}

int32_t StringIndex::find(std::string_view text) const {
  if (slots_.empty()) return -1;
  const uint64_t hash = hash_text(text);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t slot = hash & mask_; slots_[slot].number >= 0; slot = (slot + 1) & mask_) {
    const Slot& taken = slots_[slot];
    if (taken.tag == tag && (*strings_)[static_cast<size_t>(taken.number)] == text) {
      return taken.number;
    }
  }
  return -1;
}

}  // namespace quire::context
