#include "train/hash.h"

#include <bit>
#include <cstring>
#include <stdexcept>

namespace lowtide::train {
namespace {

constexpr std::uint64_t kMultiplier1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t kMultiplier2 = 0xC2B2AE3D27D4EB4Fu;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  return std::rotl(hash ^ (word * kMultiplier1), 31) * kMultiplier2;
}

std::uint64_t finished(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kMultiplier1;
  hash = (hash ^ (hash >> 29)) * kMultiplier2;
  return hash ^ (hash >> 32);
}

/// Calls `visit` on each contiguous run of elements, in row-major order.
template <typename Visit>
void for_each_run(const at::Tensor& tensor, std::int64_t dim, const char* data,
                  const Visit& visit) {
  const auto element = static_cast<std::int64_t>(tensor.element_size());
  if (dim == tensor.dim()) return visit(std::string_view(data, static_cast<std::size_t>(element)));
  const std::int64_t size = tensor.size(dim), stride = tensor.stride(dim) * element;
  if (dim + 1 == tensor.dim() && stride == element) {
    return visit(std::string_view(data, static_cast<std::size_t>(size * element)));
  }
  for (std::int64_t i = 0; i < size; ++i) for_each_run(tensor, dim + 1, data + i * stride, visit);
}

const char* begin_of(const at::Tensor& tensor) {
  return static_cast<const char*>(tensor.const_data_ptr());
}

}  // namespace

std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed) {
  std::uint64_t hash = seed + kMultiplier2;
  const std::size_t length = bytes.size();
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = mixed(hash, word);
  }
  std::uint64_t tail = 0;
  if (!bytes.empty()) std::memcpy(&tail, bytes.data(), bytes.size());
  return finished(mixed(mixed(hash, tail), length));
}

std::string_view bytes_of(const at::Tensor& tensor) {
  if (!tensor.is_contiguous()) throw std::logic_error("bytes_of needs a contiguous tensor");
  return {begin_of(tensor), tensor.nbytes()};
}

std::uint64_t fingerprint(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) return hash_bytes({begin_of(tensor), tensor.nbytes()});
  std::uint64_t hash = 0;
  for_each_run(tensor, 0, begin_of(tensor),
               [&](std::string_view run) { hash = hash_bytes(run, hash); });
  return hash;
}

std::string packed_bytes(const at::Tensor& tensor) {
  std::string packed;
  packed.reserve(tensor.nbytes());
  for_each_run(tensor, 0, begin_of(tensor), [&](std::string_view run) { packed += run; });
  return packed;
}

}  // namespace lowtide::train
