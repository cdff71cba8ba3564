#include "kv/memory_ledger.h"

#include <utility>

#include "base/check.h"

namespace quire::kv {

Reservation::Reservation(Reservation&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  Reservation taken(std::move(other));
  std::swap(ledger_, taken.ledger_);
  std::swap(bytes_, taken.bytes_);
  return *this;
}

Reservation::~Reservation() {
  if (ledger_ != nullptr) ledger_->give(bytes_);
}

bool Reservation::resize(int64_t bytes) {
  QUIRE_CHECK(ledger_ != nullptr, "a reservation without a ledger cannot grow");
  QUIRE_CHECK_LE(0, bytes);
  if (bytes > bytes_ && !ledger_->take(bytes - bytes_)) return false;
  if (bytes < bytes_) ledger_->give(bytes_ - bytes);
  bytes_ = bytes;
  return true;
}

MemoryLedger::MemoryLedger(int64_t ceiling_bytes) : ceiling_(ceiling_bytes) {
  QUIRE_CHECK_LE(0, ceiling_bytes);
}

MemoryLedger::~MemoryLedger() {
  QUIRE_CHECK_EQ(used(), 0);
}

std::optional<Reservation> MemoryLedger::reserve(int64_t bytes) {
  QUIRE_CHECK_LE(0, bytes);
  if (!take(bytes)) return std::nullopt;
  return Reservation(this, bytes);
}

bool MemoryLedger::take(int64_t bytes) {
  int64_t before = used();
  do {
    if (bytes > ceiling_ - before) return false;
  } while (!used_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  const int64_t after = before + bytes;
  int64_t highest = peak();
  while (highest < after &&
         !peak_.compare_exchange_weak(highest, after, std::memory_order_relaxed)) {
  }
  return true;
}

void MemoryLedger::give(int64_t bytes) {
  const int64_t before = used_.fetch_sub(bytes, std::memory_order_relaxed);
  QUIRE_CHECK_LE(bytes, before);
}

}  // namespace quire::kv
