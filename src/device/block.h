#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace lowtide::device {

/// Address space taken from the system in one piece and given back at the end. Zero-filled; a page
/// takes memory only once it is written.
class Block {
 public:
  enum class Access { whole, none };

  /// `none`: only addresses, nothing readable until open_to(). Throws Error when the system
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
