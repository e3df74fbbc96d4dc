#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "slower/aligned_memory.h"
#include "slower/buffers.h"
#include "slower/medium.h"
#include "slower/place.h"

namespace lowtide::slower {

/// A folder on a disk. Each store is a file without a name in it (file_store.h).
class Disk final : public Place {
 public:
  /// Of all its stores, while there is one: small, as they are a part of the budget.
  static constexpr Bytes kBufferBytes = Bytes{8} << 20;
  /// With a page, by which the values of a plan may begin later in memory.
  static constexpr Bytes kReservedBytes = kBufferBytes + kPage;

  /// Throws InputError when there is no such folder, or it may not be written.
  explicit Disk(std::filesystem::path folder);

  std::string name() const override;
  /// The file system of the folder, by the table of mounts.
  std::string medium() const override;
  Bytes free_bytes() const override;
  Bytes buffer_bytes() const override { return kReservedBytes; }
  LaneSpeed measured() const override;
  std::unique_ptr<Store> open(Bytes bytes) const override;

  /// What a store of the place lies in, for a store that comes to it by another way. Throws as
  /// open().
  std::unique_ptr<Medium> reserve(Bytes bytes) const;
  static constexpr int kThreadsPerLane = 2;
  /// Of a store that is measured.
  Bytes bytes_to_measure() const;

 private:
  std::shared_ptr<Buffers> shared_buffers() const;

  const std::filesystem::path folder_;
  mutable std::mutex mutex_;                // of the next one
  mutable std::weak_ptr<Buffers> buffers_;  // of the stores that there are; without one, none
};

}  // namespace lowtide::slower
