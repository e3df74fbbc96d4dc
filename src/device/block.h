#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace lowtide::device {

/// One range of address space from the system, released at the end. Zero-filled; a page uses memory
/// only after a write.
class Block {
 public:
  enum class Access { whole, none };

  /// `none`: only addresses; not readable before open_to(). Throws Error when the system
  /// refuses.
  explicit Block(Bytes bytes, Access access = Access::whole);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* data() const { return data_; }
  Bytes bytes() const { return bytes_; }
  bool contains(const void* address) const { return address >= data_ && address < data_ + bytes_; }
  /// Makes the first `bytes` readable and writable.
  void open_to(Bytes bytes);

 private:
  std::byte* data_ = nullptr;
  Bytes bytes_ = 0;
  Bytes open_ = 0;
};

}  // namespace lowtide::device
