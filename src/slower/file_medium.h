#pragma once

#include <memory>
#include <string>

#include "base/descriptor.h"
#include "slower/buffers.h"
#include "slower/file_store.h"
#include "slower/medium.h"

namespace lowtide::slower {

/// The medium of a FileStore.
class FileMedium final : public Medium {
 public:
  /// Throws as FileStore.
  FileMedium(const std::filesystem::path& folder, Bytes bytes, const FileOptions& options);

  std::string name() const override { return name_; }
  Bytes bytes() const override { return bytes_; }
  Bytes buffer_bytes() const override { return buffers_->bytes(); }
  Bytes alignment() const override { return is_direct_ ? kPage : 1; }
  Bytes largest_block() const override { return request_bytes_; }
  void write(Block& block, std::span<const std::byte> data, const Worker& worker) override;
  void read(const Block& block, Bytes offset, std::span<std::byte> into,
            const Worker& worker) override;

 private:
  bool turn_direct();
  Range aligned(Range range) const;
  bool is_aligned(const std::byte* data, Range range) const;
  void read_shared_pages(const Block& block, Range whole, std::span<std::byte> buffer,
                         const Worker& worker);
  void write_all(Bytes offset, std::span<const std::byte> data, const Worker& worker);
  void read_all(Bytes offset, std::span<std::byte> into, const Worker& worker);
  template <typename Call>
  void move_all(Range range, const char* verb, const Worker& worker, const Call& call);
  void verify(const Block& block, std::span<const std::byte> data, const Worker& worker) const;
  void flush(Range range, const Worker& worker);
  void leave_page_cache();
  [[noreturn]] void fail(const char* verb, Bytes offset, int error, const Worker& worker) const;
  [[noreturn]] void fail(const char* verb, Bytes offset, const std::string& reason,
                         const Worker& worker) const;

  const std::string name_;
  const Bytes bytes_;
  const Bytes request_bytes_;
  FileCalls& calls_;
  const Descriptor file_;
  const std::shared_ptr<Buffers> buffers_;
  const bool is_direct_;
};

}  // namespace lowtide::slower
