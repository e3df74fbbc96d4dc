#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "graph/dtype.h"
#include "graph/graph.h"

namespace lowtide::train {

/// A tensor to write to a safetensors file. `bytes` is row-major and must outlive the call. Where
/// the bytes are not in memory, `append` appends them instead.
struct StoredTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::string_view bytes = {};
  std::function<void(const Append&)> append = {};
};

using Metadata = std::map<std::string, std::string>;

/// Writes the format of huggingface/safetensors (8 bytes of header length, JSON header, raw data)
/// to a temporary file and renames it, as base/file.h does. Throws Error when the disk is full.
void write_safetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors,
                       const Metadata& metadata);

/// A safetensors file open for reading. The header is checked at once: its tensors must fill the
/// file exactly.
class SafetensorsReader {
 public:
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
    std::uint64_t begin, end;  ///< in the data section
  };

  /// Throws InputError that names the file and its error.
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }
  /// The tensors, in the order of their data.
  const std::vector<Entry>& entries() const { return entries_; }
  /// Reads one tensor's data; `to` has its size.
  void read(const Entry& entry, std::span<char> to);

 private:
  [[noreturn]] void fail(std::string_view why) const;
  void parse_header(std::string_view header);
  void check_extent(std::uint64_t data_bytes) const;

  std::filesystem::path path_;
  std::ifstream stream_;
  std::uint64_t data_begin_ = 0;
  Metadata metadata_;
  std::vector<Entry> entries_;
};

}  // namespace lowtide::train
