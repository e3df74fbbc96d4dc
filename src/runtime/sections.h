#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "device/device.h"
#include "runtime/block_map.h"

namespace lowtide::runtime {

/// Addresses of a block's sections. Offsets are those of a BlockMap.
class SectionAddresses {
 public:
  struct Section {
    Bytes begin = 0, end = 0;  ///< offsets
    std::byte* data = nullptr;
    bool operator==(const Section&) const = default;
  };

  /// Sorted by offset; the first offset is 0.
  explicit SectionAddresses(std::vector<Section> sections) : sections_(std::move(sections)) {}
  /// A block in one piece.
  SectionAddresses(std::byte* data, Bytes bytes) : sections_{{0, bytes, data}} {}

  /// Null in a section that is not allocated.
  std::byte* at(Bytes offset) const;
  bool contain(const void* address) const;
  bool operator==(const SectionAddresses&) const = default;

 private:
  std::vector<Section> sections_;
};

/// The memory of a block's sections, each an allocation of the framework's own allocator for the
/// device. A section
/// is in use while another owner, such as a returned tensor, holds it.
class Sections {
 public:
  /// Allocates no memory yet.
  Sections(const BlockMap& map, const device::ComputeDevice& device);

  /// Allocates the sections that are not held, except the one that replaces results. Throws Error
  /// when an allocation fails.
  void take();
  /// Allocates that section, after the results are gone.
  void take_late();
  void give_back();
  void give_back_late();
  void give_back_unused();
  /// Those that end there or before, for which nobody else must hold a tensor.
  void give_back_before(Bytes offset);

  bool in_use() const;
  Bytes held_bytes() const;
  SectionAddresses addresses() const;
  /// The section of this address, to be held by a tensor there; null for none.
  std::shared_ptr<std::byte> owner_of(const void* address) const;

 private:
  struct Section {
    Bytes begin, end;
    bool late;
    std::shared_ptr<std::byte> memory = nullptr;  // null: not held
  };

  void take(bool late);

  const device::ComputeDevice& device_;
  std::vector<Section> sections_;
};

}  // namespace lowtide::runtime
