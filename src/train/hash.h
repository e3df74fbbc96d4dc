#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lowtide::train {

/// A 64-bit hash of `bytes`, continued from `seed`: inputs that differ in a single bit collide with
/// a probability of about 2^-64. Not for adversaries. About 2 bytes per cycle.
std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0);

/// The bytes of a contiguous tensor, in place.
std::string_view bytes_of(const at::Tensor& tensor);

/// Hash of a tensor's elements. Equal for equal elements in equal strides. Allocates nothing, so it
/// may be called while a step runs.
std::uint64_t fingerprint(const at::Tensor& tensor);

/// A copy of a tensor's elements in row-major order, whatever its strides. Allocates nothing
/// through the framework.
std::string packed_bytes(const at::Tensor& tensor);

}  // namespace lowtide::train
