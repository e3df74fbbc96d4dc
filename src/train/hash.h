#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lowtide::train {

/// A 64-bit hash of `bytes`, going on from `seed`: tells apart what differs in a single bit with a
/// chance of error of about 2^-64. Not for adversaries. About 2 bytes per cycle.
std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0);

/// The bytes of a contiguous tensor, in place.
std::string_view bytes_of(const at::Tensor& tensor);

/// Hash of a tensor's elements. Equal for equal elements in equal strides. Allocates nothing, so
/// it may look at tensors while a step runs.
std::uint64_t fingerprint(const at::Tensor& tensor);

/// A copy of a tensor's elements in row-major order, whatever its strides. Allocates nothing
/// through the framework.
std::string packed_bytes(const at::Tensor& tensor);

}  // namespace lowtide::train
