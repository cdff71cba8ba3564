// memory_ledger.h: one account of bytes with a ceiling, and move-only proofs of what was taken from
// it.
//
// used() is the sum of all live Reservations and never exceeds ceiling(). Nothing is allocated
// here: whoever allocates holds a Reservation for it. A ledger outlives its reservations. Thread
// rule: a MemoryLedger may be used from any thread, one Reservation from one thread at a time.
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>

namespace quire::kv {

class MemoryLedger;

/// Bytes taken from a ledger; returned by the destructor. An empty one belongs to no ledger.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  [[nodiscard]] int64_t bytes() const { return bytes_; }
  /// Changes the size in place; false, and nothing changed, if the ledger lacks the bytes.
  /// Shrinking always works. Requires a ledger and bytes >= 0.
  [[nodiscard]] bool resize(int64_t bytes);

 private:
  friend class MemoryLedger;
  Reservation(MemoryLedger* ledger, int64_t bytes) : ledger_(ledger), bytes_(bytes) {}

  MemoryLedger* ledger_ = nullptr;
  int64_t bytes_ = 0;
};

class MemoryLedger {
 public:
  /// Requires ceiling_bytes >= 0.
  explicit MemoryLedger(int64_t ceiling_bytes);
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;
  /// Aborts if a reservation is still out.
  ~MemoryLedger();

  /// Nothing if that would pass the ceiling. Requires bytes >= 0; zero bytes are always granted.
  [[nodiscard]] std::optional<Reservation> reserve(int64_t bytes);

  [[nodiscard]] int64_t ceiling() const { return ceiling_; }
  [[nodiscard]] int64_t used() const { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] int64_t available() const { return ceiling_ - used(); }
  /// The highest used() so far.
  [[nodiscard]] int64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  friend class Reservation;
  [[nodiscard]] bool take(int64_t bytes);
  void give(int64_t bytes);

  const int64_t ceiling_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> peak_{0};
};

}  // namespace quire::kv
