#include "train/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace lowtide::train {
using nlohmann::ordered_json;
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::array kNames = {std::pair{DType::c64, "C64"},   std::pair{DType::f64, "F64"},
                               std::pair{DType::f32, "F32"},   std::pair{DType::f16, "F16"},
                               std::pair{DType::bf16, "BF16"}, std::pair{DType::i64, "I64"},
                               std::pair{DType::i32, "I32"},   std::pair{DType::i16, "I16"},
                               std::pair{DType::i8, "I8"},     std::pair{DType::u64, "U64"},
                               std::pair{DType::u8, "U8"},     std::pair{DType::boolean, "BOOL"}};

/// As the package safetensors has it. Parsed, a header takes several times as much.
constexpr Bytes kLongestHeader = 100'000'000;

std::string stored_name(DType dtype) {
  const auto found =
      std::find_if(kNames.begin(), kNames.end(), [&](const auto& n) { return n.first == dtype; });
  if (found != kNames.end()) return found->second;
  throw InputError(fmt::format("Cannot store tensors of type {}: safetensors has no such type. "
                               "Train in c64, or store the parts as f64.",
                               name(dtype)));
}

std::optional<DType> stored_dtype(std::string_view text) {
  for (const auto& [dtype, known] : kNames) {
    if (text == known) return dtype;
  }
  return std::nullopt;
}

/// Nothing when the product overflows.
std::optional<std::uint64_t> bytes_of_shape(DType dtype, const Shape& shape) {
  auto bytes = static_cast<std::uint64_t>(element_bytes(dtype));
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes))
      return {};
  }
  return bytes;
}

std::string header_of(const std::vector<StoredTensor>& tensors, const Metadata& metadata) {
  ordered_json header = {{"__metadata__", metadata}};
  std::uint64_t at = 0;
  for (const StoredTensor& t : tensors) {
    const std::string dtype = stored_name(t.dtype);
    const std::uint64_t bytes = bytes_of_shape(t.dtype, t.shape).value();
    header[t.name] = {{"dtype", dtype}, {"shape", t.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data begins 8-byte aligned
  return text;
}

}  // namespace

void write_safetensors(const fs::path& path, const std::vector<StoredTensor>& tensors,
                       const Metadata& metadata) {
  const std::string header = header_of(tensors, metadata);
  const auto length = std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(header.size()));
  write_file(path, [&](const Append& append) {
    append({length.data(), length.size()});
    append(header);
    for (const StoredTensor& t : tensors) {
      if (t.append) {
        t.append(append);
      } else {
        append(t.bytes);
      }
    }
  });
}

SafetensorsReader::SafetensorsReader(const fs::path& path) : path_(path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw InputError(fmt::format("no such file: {}.", path.string()));
  if (!fs::is_regular_file(path, error)) fail("it is not a regular file");
  stream_.open(path, std::ios::binary);
  if (!stream_) fail("it may not be read");
  const std::uint64_t size = fs::file_size(path);
  std::array<char, 8> length_bytes;
  if (!stream_.read(length_bytes.data(), 8)) fail("it is cut short");
  const auto length = std::bit_cast<std::uint64_t>(length_bytes);
  if (length > size - 8) fail("it is cut short, or no safetensors file");
  if (length > static_cast<std::uint64_t>(kLongestHeader)) {
    fail(fmt::format("its header has more than {}, which safetensors refuses",
                     format_bytes(kLongestHeader)));
  }
  std::string header(length, ' ');
  if (!stream_.read(header.data(), static_cast<std::streamsize>(length))) fail("it cannot be read");
  data_begin_ = 8 + length;
  parse_header(header);
  check_extent(size - data_begin_);
}

void SafetensorsReader::fail(std::string_view why) const {
  throw InputError(fmt::format("cannot read {}: {}.", path_.string(), why));
}

void SafetensorsReader::parse_header(std::string_view header) {
  try {
    // Not an ordered_json, whose time is quadratic in the names; entries are sorted below.
    const auto j = nlohmann::json::parse(header);
    for (const auto& [name, value] : j.items()) {
      if (name == "__metadata__") {
        value.get_to(metadata_);
        continue;
      }
      const auto dtype = stored_dtype(value.at("dtype").get<std::string>());
      if (!dtype) fail(fmt::format("tensor {} has an unknown dtype", name));
      const auto& offsets = value.at("data_offsets");
      entries_.push_back({name, *dtype, value.at("shape").get<Shape>(),
                          offsets.at(0).get<std::uint64_t>(), offsets.at(1).get<std::uint64_t>()});
    }
  } catch (const nlohmann::json::exception&) {
    fail("its header is damaged, or it is no safetensors file");
  }
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
}

void SafetensorsReader::check_extent(std::uint64_t data_bytes) const {
  std::uint64_t at = 0;
  for (const Entry& e : entries_) {
    const auto bytes = bytes_of_shape(e.dtype, e.shape);
    if (e.begin != at || e.end < e.begin || bytes != e.end - e.begin) {
      fail(fmt::format("the header gives tensor {} a wrong place", e.name));
    }
    at = e.end;
  }
  if (at > data_bytes) fail("it is cut short");
  if (at < data_bytes) fail("there is more in it than its header says");
}

void SafetensorsReader::read(const Entry& entry, std::span<char> to) {
  stream_.clear();
  stream_.seekg(static_cast<std::streamoff>(data_begin_ + entry.begin));
  if (!stream_.read(to.data(), static_cast<std::streamsize>(to.size()))) {
    fail(fmt::format("tensor {} cannot be read", entry.name));
  }
}

}  // namespace lowtide::train
