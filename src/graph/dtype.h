#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lowtide {

/// `c128` and `c64` are complex: pairs of `f64` and of `f32`.
enum class DType : std::uint8_t {
  c128,
  c64,
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u8,
  boolean
};

/// Bytes of one element.
int element_bytes(DType dtype);
/// "f32", "i64", "bool", "c64", ...
std::string_view name(DType dtype);
/// Reads lowtide's names and PyTorch's ("f32", "float32", "float", ...); nothing for others.
std::optional<DType> parse_dtype(std::string_view text);
bool is_floating(DType dtype);
bool is_complex(DType dtype);

}  // namespace lowtide
