#include "stash/blocks.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "stash/dense.h"

namespace lowtide::stash {
namespace {

constexpr float kLargestStep = 127;
/// Adding and taking it away again rounds a float below 2^22 to the nearest integer, half to even.
constexpr float kRounder = 0x1.8p23F;

std::int64_t blocks_of(std::int64_t elements) {
  return (elements + kBlockElements - 1) / kBlockElements;
}

/// The scale of a block; NaN where an element is none or infinite.
template <typename Value>
float scale_of(const Value* values, std::int64_t count) {
  float largest = 0, sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float size = std::abs(static_cast<float>(values[i]));
    largest = std::max(largest, size);
    sum += 0 * size;
  }
  return largest / kLargestStep + sum;
}

template <typename Value>
void to_steps(const Value* values, float scale, std::int8_t* steps, std::int64_t count) {
  const float per_scale = scale > 0 ? 1 / scale : 0;  // of NaN: 0
  const bool is_finite = std::isfinite(per_scale);    // it is not where the scale is subnormal
  for (std::int64_t i = 0; i < count; ++i) {
    const float step = is_finite && per_scale > 0 ? static_cast<float>(values[i]) * per_scale : 0;
    const float nearest = std::clamp(step, -kLargestStep, kLargestStep) + kRounder - kRounder;
    steps[i] = static_cast<std::int8_t>(nearest);
  }
}

/// `each(first, count, block)` for all blocks.
template <typename Each>
void for_each_block(std::int64_t elements, const Each& each) {
  at::parallel_for(0, blocks_of(elements), kGrain / kBlockElements,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t block = begin; block < end; ++block) {
                       const std::int64_t first = kBlockElements * block;
                       each(first, std::min(kBlockElements, elements - first), block);
                     }
                   });
}

/// The elements of each block in a row, zeros after the last.
at::Tensor rows_of_blocks(const at::Tensor& flat) {
  const std::int64_t blocks = blocks_of(flat.numel());
  return at::constant_pad_nd(flat, {0, kBlockElements * blocks - flat.numel()}, 0)
      .view({blocks, kBlockElements});
}

void to_blocks_by_ops(const at::Tensor& flat, at::Tensor& steps, at::Tensor& scales) {
  const at::Tensor rows = rows_of_blocks(flat.to(at::kFloat));
  const at::Tensor invalid = rows.mul(0).sum(1);  // NaN where an element is none or infinite
  scales.copy_(rows.abs().amax(1).div(kLargestStep).add(invalid));
  const at::Tensor per_scale = scales.reciprocal().nan_to_num(0, 0, 0).unsqueeze(1);
  const at::Tensor nearest =
      rows.nan_to_num(0, 0, 0).mul(per_scale).clamp(-kLargestStep, kLargestStep).round();
  steps.copy_(nearest.view({-1}).narrow(0, 0, flat.numel()));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> to_blocks(const at::Tensor& values) {
  const at::Tensor flat = in_memory_order(values);
  const std::int64_t elements = flat.numel();
  at::Tensor steps = at::empty_like(values, at::kChar);
  at::Tensor scales = at::empty({blocks_of(elements)}, values.options().dtype(at::kFloat));
  if (!on_host(values)) {
    at::Tensor flat_steps = in_memory_order(steps);
    to_blocks_by_ops(flat, flat_steps, scales);
    return {steps, scales};
  }
  auto* const out = steps.mutable_data_ptr<std::int8_t>();
  auto* const scale = scales.mutable_data_ptr<float>();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, values.scalar_type(), "lowtide::to_blocks", [&] {
        const auto* const in = flat.const_data_ptr<scalar_t>();
        for_each_block(elements, [&](std::int64_t first, std::int64_t count, std::int64_t block) {
          scale[block] = scale_of(in + first, count);
          to_steps(in + first, scale[block], out + first, count);
        });
      });
  return {steps, scales};
}

at::Tensor from_blocks(const at::Tensor& steps, const at::Tensor& scales, at::ScalarType dtype) {
  const at::Tensor flat = in_memory_order(steps);
  const std::int64_t elements = flat.numel();
  at::Tensor values = at::empty_like(steps, dtype);
  if (!on_host(steps)) {
    const at::Tensor rows = rows_of_blocks(flat.to(at::kFloat)).mul(scales.unsqueeze(1));
    in_memory_order(values).copy_(rows.view({-1}).narrow(0, 0, elements));
    return values;
  }
  const auto* const in = flat.const_data_ptr<std::int8_t>();
  const auto* const scale = scales.const_data_ptr<float>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "lowtide::from_blocks", [&] {
    auto* const out = values.mutable_data_ptr<scalar_t>();
    for_each_block(elements, [&](std::int64_t first, std::int64_t count, std::int64_t block) {
      for (std::int64_t i = first; i < first + count; ++i) {
        out[i] = static_cast<scalar_t>(static_cast<float>(in[i]) * scale[block]);
      }
    });
  });
  return values;
}

}  // namespace lowtide::stash
