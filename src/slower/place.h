#pragma once

#include <memory>
#include <string>

#include "slower/speed.h"
#include "slower/store.h"

namespace lowtide::slower {

/// Where stores are made.
class Place {
 public:
  virtual ~Place() = default;

  /// "the folder /mnt/disk", for messages.
  virtual std::string name() const = 0;
  /// What the speed of copies depends on, and nothing that changes with a restart of the machine:
  /// "ext4 /dev/sda1 at /", or a device.
  virtual std::string medium() const = 0;
  /// What the place has free for stores. Throws InputError when it cannot be used.
  virtual Bytes free_bytes() const = 0;
  /// What all stores of the place together take for copies of the memory that values move from,
  /// while there is one.
  virtual Bytes buffer_bytes() const = 0;
  /// How fast its stores are, measured now: slower/measure.h. Throws as open().
  virtual LaneSpeed measured() const = 0;
  /// A store of so many bytes, which the place must outlive. Throws InputError when the place
  /// cannot be used, and Error when it has no room; the message has the bytes wanted and what to
  /// do.
  virtual std::unique_ptr<Store> open(Bytes bytes) const = 0;
};

}  // namespace lowtide::slower
