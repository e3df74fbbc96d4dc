#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

/// Values in 8 bits with a scale for each block of elements: with loss. After Dettmers et al.,
/// "8-bit optimizers via block-wise quantization" (2022), with steps of one size within a block.
namespace lowtide::stash {

/// Elements of a block, in the order of the addresses.
inline constexpr std::int64_t kBlockElements = 256;

/// int8, laid out as the dense floating tensor `values`, and the scales: float32 [ceil(n / 256)].
/// An element is off by half a scale at most, which is 1/254 of the largest one of its block. A
/// block with an infinity or a NaN comes back as NaN.
std::tuple<at::Tensor, at::Tensor> to_blocks(const at::Tensor& values);

/// The values in that dtype, laid out as `steps`.
at::Tensor from_blocks(const at::Tensor& steps, const at::Tensor& scales, at::ScalarType dtype);

}  // namespace lowtide::stash
