// string_index.h: many short strings in one block of memory, and a hash table from text to number.
//
// A vocabulary holds up to some 300,000 strings of a few bytes: one allocation each would cost more
// memory and load time than the strings. Both types are filled once, then read by any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::context {

/// Strings by number, contiguous. A view stays valid until the next push_back.
class StringList {
 public:
  void reserve(size_t strings, size_t bytes);
  void push_back(std::string_view text);
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

/// 64 well-mixed bits of a text or of a number.
uint64_t hash_text(std::string_view text);
uint64_t hash_number(uint64_t number);

/// Finds the number of a string of a StringList, which must outlive it and not move.
class StringIndex {
 public:
  explicit StringIndex(const StringList* strings) : strings_(strings) {}

  /// Makes room for so many entries: call once, first.
  void reserve(size_t entries);
  /// Adds string number `i`. False, and nothing changes, if an equal string is already there.
  bool insert(int32_t i);
  /// -1 if there is none.
  int32_t find(std::string_view text) const;

 private:
  struct Slot {
    int32_t number = -1;
    uint32_t tag = 0;  // further bits of the hash: most misses are told without reading the string
  };
  const StringList* strings_;
  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace quire::context
