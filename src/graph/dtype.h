#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lowtide {

enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

/// Bytes of one element.
int element_bytes(DType dtype);
/// "f32", "i64", "bool", ...
std::string_view name(DType dtype);
/// Reads lowtide's names and PyTorch's ("f32", "float32", "float", ...); nothing for others.
std::optional<DType> parse_dtype(std::string_view text);
bool is_floating(DType dtype);

}  // namespace lowtide
