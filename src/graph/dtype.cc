#include "graph/dtype.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace lowtide {
namespace {

enum class Numbers : std::uint8_t { complex, floating, whole };

struct Entry {
  DType dtype;
  int bytes;
  Numbers numbers;
  std::string_view name;
  std::string_view torch_name;
  std::string_view short_torch_name;
};

constexpr std::array<Entry, 13> kEntries{{
    {DType::c128, 16, Numbers::complex, "c128", "complex128", "cdouble"},
    {DType::c64, 8, Numbers::complex, "c64", "complex64", "cfloat"},
    {DType::f64, 8, Numbers::floating, "f64", "float64", "double"},
    {DType::f32, 4, Numbers::floating, "f32", "float32", "float"},
    {DType::f16, 2, Numbers::floating, "f16", "float16", "half"},
    {DType::bf16, 2, Numbers::floating, "bf16", "bfloat16", "bfloat16"},
    {DType::i64, 8, Numbers::whole, "i64", "int64", "long"},
    {DType::i32, 4, Numbers::whole, "i32", "int32", "int"},
    {DType::i16, 2, Numbers::whole, "i16", "int16", "short"},
    {DType::i8, 1, Numbers::whole, "i8", "int8", "char"},
    {DType::u64, 8, Numbers::whole, "u64", "uint64", "uint64"},
    {DType::u8, 1, Numbers::whole, "u8", "uint8", "byte"},
    {DType::boolean, 1, Numbers::whole, "bool", "boolean", "bool"},
}};

const Entry& entry(DType dtype) {
  const auto found = std::ranges::find(kEntries, dtype, &Entry::dtype);
  if (found == kEntries.end()) throw std::logic_error("dtype without an entry");
  return *found;
}

}  // namespace

int element_bytes(DType dtype) { return entry(dtype).bytes; }
std::string_view name(DType dtype) { return entry(dtype).name; }
bool is_floating(DType dtype) { return entry(dtype).numbers == Numbers::floating; }
bool is_complex(DType dtype) { return entry(dtype).numbers == Numbers::complex; }

std::optional<DType> parse_dtype(std::string_view text) {
  constexpr std::string_view kPrefix = "torch.";
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  for (const Entry& e : kEntries) {
    if (text == e.name || text == e.torch_name || text == e.short_torch_name) return e.dtype;
  }
  return std::nullopt;
}

}  // namespace lowtide
