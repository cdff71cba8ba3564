// naive_store.h: what a KvStore must do, written as plainly as possible.
//
// Every sequence owns a copy of all its rows. Pages are numbers: a fork copies the numbers, a write
// to a page that another sequence also lists takes a new number, and what is held is the count of
// distinct numbers. Windows are decided key by key. With a lossy codec a page has a second number,
// of its sealed form. Nothing here is shared with the real store.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "kv/row_io.h"

namespace quire::kv {

struct NaiveGroup {
  int64_t window = 0;  // 0: global
  int64_t sinks = 0;
  bool lossy = false;
  int64_t page_bytes = 0;
  int64_t max_pages = 0;  // of either kind
  int64_t max_sealed_pages = 0;
  bool prepaid = false;  // pages cost nothing any more (static)
};

struct NaiveSequence {
  std::vector<std::vector<Row>> rows;              // [group][position], committed
  std::vector<std::map<int64_t, int64_t>> pages;   // [group] position / 64 -> page number
  std::vector<std::map<int64_t, int64_t>> sealed;  // the same of sealed forms
  int64_t length = 0;
  int64_t reserved = 0;
};

class NaiveStore {
 public:
  NaiveStore(std::vector<NaiveGroup> groups, int64_t budget_bytes)
      : groups_(std::move(groups)), budget_bytes_(budget_bytes) {}

  const std::vector<NaiveGroup>& groups() const { return groups_; }
  std::map<int64_t, NaiveSequence>& sequences() { return sequences_; }

  void create(int64_t id) {
    sequences_[id].rows.resize(groups_.size());
    sequences_[id].pages.resize(groups_.size());
    sequences_[id].sealed.resize(groups_.size());
  }

  void destroy(int64_t id) { sequences_.erase(id); }

  void fork(int64_t from, int64_t to) {
    end_reservation(sequences_.at(from));
    sequences_[to] = sequences_.at(from);
  }

  int64_t pages_held(size_t group) const {
    std::set<int64_t> distinct;
    for (const auto& [id, sequence] : sequences_) {
      for (const auto& [index, page] : sequence.pages[group]) distinct.insert(page);
    }
    return static_cast<int64_t>(distinct.size());
  }

  int64_t sealed_held(size_t group) const {
    std::set<int64_t> distinct;
    for (const auto& [id, sequence] : sequences_) {
      for (const auto& [index, page] : sequence.sealed[group]) distinct.insert(page);
    }
    return static_cast<int64_t>(distinct.size());
  }

  int64_t bytes_held() const {
    int64_t bytes = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      bytes += (pages_held(g) + sealed_held(g)) * groups_[g].page_bytes;
    }
    return bytes;
  }

  /// Page indices that the next `tokens` of a group fill and that need a sealed form.
  std::vector<int64_t> missing_sealed(int64_t id, size_t group, int64_t tokens) const {
    const NaiveSequence& sequence = sequences_.at(id);
    std::vector<int64_t> result;
    if (!groups_[group].lossy) return result;
    for (int64_t p = sequence.length; p < sequence.length + tokens; ++p) {
      if (p % 64 == 63 && p > 63 && !sequence.sealed[group].contains(p / 64)) {
        result.push_back(p / 64);
      }
    }
    return result;
  }

  /// Page indices that the next `tokens` of a group write and that need a new number.
  std::vector<int64_t> missing(int64_t id, size_t group, int64_t tokens) const {
    const NaiveSequence& sequence = sequences_.at(id);
    std::vector<int64_t> result;
    for (int64_t p = sequence.length + sequence.reserved; p < sequence.length + tokens; ++p) {
      if (!result.empty() && result.back() == p / 64) continue;
      const auto found = sequence.pages[group].find(p / 64);
      if (found == sequence.pages[group].end() || is_shared(id, group, found->second)) {
        result.push_back(p / 64);
      }
    }
    return result;
  }

  /// Whether there was room; if not, nothing changed.
  bool reserve(int64_t id, int64_t tokens) {
    int64_t price = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto pages = static_cast<int64_t>(missing(id, g, tokens).size());
      const auto sealed = static_cast<int64_t>(missing_sealed(id, g, tokens).size());
      if (pages_held(g) + pages > groups_[g].max_pages) return false;
      if (sealed_held(g) + sealed > groups_[g].max_sealed_pages) return false;
      if (!groups_[g].prepaid) price += (pages + sealed) * groups_[g].page_bytes;
    }
    const int64_t spent = groups_[0].prepaid ? 0 : bytes_held();
    if (price > budget_bytes_ - spent) return false;
    NaiveSequence& sequence = sequences_.at(id);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const int64_t index : missing(id, g, tokens)) sequence.pages[g][index] = next_page_++;
      for (const int64_t index : missing_sealed(id, g, tokens)) {
        sequence.sealed[g][index] = next_page_++;
      }
    }
    sequence.reserved = std::max(sequence.reserved, tokens);
    return true;
  }

  /// `rows[group][i]` is the row of the i-th token.
  void commit(int64_t id, const std::vector<std::vector<Row>>& rows, int64_t tokens) {
    NaiveSequence& sequence = sequences_.at(id);
    for (size_t g = 0; g < groups_.size(); ++g) {
      sequence.rows[g].insert(sequence.rows[g].end(), rows[g].begin(), rows[g].begin() + tokens);
    }
    sequence.length += tokens;
    sequence.reserved -= tokens;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto is_invisible = [&](const auto& page) {
        return groups_[g].window > 0 &&
               page.first * 64 + 63 < sequence.length - groups_[g].window &&
               page.first * 64 >= groups_[g].sinks;
      };
      std::erase_if(sequence.pages[g], is_invisible);
      std::erase_if(sequence.sealed[g], is_invisible);
      std::erase_if(sequence.pages[g], [&](const auto& page) {
        return groups_[g].lossy && page.first > 0 && page.first * 64 + 64 < sequence.length;
      });
    }
  }

  /// Whether all that a query at `length` sees is still there; if not, nothing changed.
  bool truncate(int64_t id, int64_t length) {
    NaiveSequence& sequence = sequences_.at(id);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (int64_t key = 0; key < length; ++key) {
        const bool is_visible =
            groups_[g].window == 0 || length - key < groups_[g].window || key < groups_[g].sinks;
        if (is_visible && !sequence.pages[g].contains(key / 64) &&
            !sequence.sealed[g].contains(key / 64)) {
          return false;
        }
      }
      // What follows is written behind rows of the same page, which must be open.
      if (groups_[g].lossy && length % 64 > 0 && !sequence.pages[g].contains(length / 64)) {
        return false;
      }
    }
    sequence.length = length;
    for (auto& rows : sequence.rows) rows.resize(static_cast<size_t>(length));
    end_reservation(sequence);
    return true;
  }

 private:
  bool is_shared(int64_t id, size_t group, int64_t page) const {
    for (const auto& [other, sequence] : sequences_) {
      if (other == id) continue;
      for (const auto& [index, number] : sequence.pages[group]) {
        if (number == page) return true;
      }
    }
    return false;
  }

  void end_reservation(NaiveSequence& sequence) {
    sequence.reserved = 0;
    for (auto& pages : sequence.pages) {
      std::erase_if(pages, [&](const auto& page) { return page.first * 64 >= sequence.length; });
    }
    for (auto& sealed : sequence.sealed) {
      std::erase_if(sealed,
                    [&](const auto& page) { return page.first * 64 + 64 > sequence.length; });
    }
  }

  std::vector<NaiveGroup> groups_;
  int64_t budget_bytes_;
  std::map<int64_t, NaiveSequence> sequences_;
  int64_t next_page_ = 0;
};

}  // namespace quire::kv
