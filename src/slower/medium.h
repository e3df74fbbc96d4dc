#pragma once

#include <cstddef>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "slower/blocks.h"

namespace lowtide::slower {

/// On whose behalf a block is copied.
struct Worker {
  std::string_view value;  ///< its name, for messages
  std::stop_token stop;    ///< when requested, nobody waits for the copy any more
};

/// Where the bytes of a store lie. Functions are called by several threads at once, for blocks that
/// share no unit of alignment.
class Medium {
 public:
  virtual ~Medium() = default;

  /// "the file in /mnt/disk", for messages.
  virtual std::string name() const = 0;
  virtual Bytes bytes() const = 0;
  virtual Bytes buffer_bytes() const = 0;
  virtual Bytes alignment() const = 0;
  virtual Bytes largest_block() const = 0;

  /// Copies a block out, and keeps in it what read() needs to know. Throws Error.
  virtual void write(Block& block, std::span<const std::byte> data, const Worker& worker) = 0;
  /// Copies the part of a written block in that begins at `offset` of the store. Throws Error,
  /// also when the bytes are not those that were written.
  virtual void read(const Block& block, Bytes offset, std::span<std::byte> into,
                    const Worker& worker) = 0;
};

}  // namespace lowtide::slower
