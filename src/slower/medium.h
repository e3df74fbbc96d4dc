#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "slower/blocks.h"

namespace lowtide::slower {

/// When a copy was asked for, in the order of the work of a device that is behind the host.
class Moment {
 public:
  Moment() = default;
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  virtual ~Moment() = default;
};

/// On whose behalf a block is copied.
struct Worker {
  std::string_view value;         ///< its name, for messages
  std::stop_token stop;           ///< when requested, nobody waits for the copy any more
  const Moment* asked = nullptr;  ///< what the medium gave for now()
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
  /// Whether the memory that it copies from and to is the host's; else it is a device's.
  virtual bool serves_host_memory() const { return true; }
  /// Called by what asks for a copy: the blocks of the copy are copied after this moment. Null for
  /// memory that is as the host left it.
  virtual std::shared_ptr<const Moment> now() const { return nullptr; }

  /// Copies a block out, and keeps in it what read() needs to know. Throws Error.
  virtual void write(Block& block, std::span<const std::byte> data, const Worker& worker) = 0;
  /// Copies the part of a written block in that begins at `offset` of the store. Throws Error,
  /// also when the bytes are not those that were written.
  virtual void read(const Block& block, Bytes offset, std::span<std::byte> into,
                    const Worker& worker) = 0;
};

}  // namespace lowtide::slower
