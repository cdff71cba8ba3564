// fake_private_file.h: a private file in memory that counts and that can be made to fail.
#pragma once
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/private_file.h"

namespace quire {

/// What happens to the files of one store; shared with them, and changed by the test.
struct DiskFaults {
  int64_t writes_until_full = INT64_MAX;  // then every write fails
  int64_t reads_until_error = INT64_MAX;  // then one read fails
  int64_t reads_until_lie = INT64_MAX;    // then one read returns a flipped bit
  int64_t reads = 0;
  int64_t writes = 0;
  std::mutex mutex;
};

class FakePrivateFile final : public PrivateFile {
 public:
  explicit FakePrivateFile(std::shared_ptr<DiskFaults> faults) : faults_(std::move(faults)) {}

  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(faults_->mutex);
    ++faults_->writes;
    if (faults_->writes_until_full-- <= 0) {
      return Error{ErrorCode::kIo, "cannot write to the spill file: No space left on device"};
    }
    blocks_[offset].assign(bytes.begin(), bytes.end());
    return {};
  }

  /// Reads join blocks that lie side by side, as they were written.
  Result<void> read(uint64_t offset, std::span<std::byte> bytes) override {
    const std::lock_guard lock(faults_->mutex);
    ++faults_->reads;
    if (--faults_->reads_until_error == 0) {
      return Error{ErrorCode::kIo, "cannot read the spill file: Input/output error"};
    }
    std::byte* out = bytes.data();
    while (out < bytes.data() + bytes.size()) {
      const auto block = blocks_.find(offset);
      if (block == blocks_.end()) return Error{ErrorCode::kIo, "reads what was never written"};
      std::memcpy(out, block->second.data(), block->second.size());
      out += block->second.size();
      offset += block->second.size();
    }
    if (--faults_->reads_until_lie == 0) bytes.front() ^= std::byte{1};
    return {};
  }

  void discard(uint64_t offset, uint64_t) override {
    const std::lock_guard lock(faults_->mutex);
    blocks_.erase(offset);
  }

 private:
  std::shared_ptr<DiskFaults> faults_;
  std::map<uint64_t, std::vector<std::byte>> blocks_;
};

}  // namespace quire
