#include "stash/halves.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <limits>

#include "stash/dense.h"

namespace lowtide::stash {
namespace {

template <typename Value, typename Half>
void keep_finite(const Value* values, Half* halves, std::int64_t count) {
  const float largest = std::numeric_limits<Half>::max();
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_too_large = std::isinf(static_cast<float>(halves[i])) && std::isfinite(values[i]);
    if (is_too_large) halves[i] = values[i] < 0 ? -largest : largest;
  }
}

template <typename Value, typename Half>
void keep_finite(const at::Tensor& values, at::Tensor& halves) {
  const Value* from = values.const_data_ptr<Value>();
  Half* to = halves.mutable_data_ptr<Half>();
  at::parallel_for(0, values.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    keep_finite(from + begin, to + begin, end - begin);
  });
}

/// The same on any device.
void keep_finite_by_ops(const at::Tensor& values, at::Tensor& halves, double largest) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  halves.clamp_(-largest, largest);
  halves.masked_fill_(values.eq(kInfinite), kInfinite);
  halves.masked_fill_(values.eq(-kInfinite), -kInfinite);
}

}  // namespace

at::Tensor to_finite(const at::Tensor& values, at::ScalarType dtype) {
  at::Tensor halves = values.to(dtype);
  const bool is_dense = values.strides() == halves.strides();
  AT_DISPATCH_REDUCED_FLOATING_TYPES(dtype, "lowtide::to_finite", [&] {
    using Half = scalar_t;
    if (!on_host(values) || !is_dense) {
      keep_finite_by_ops(values, halves, std::numeric_limits<Half>::max());
      return;
    }
    AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "lowtide::to_finite",
                               [&] { keep_finite<scalar_t, Half>(values, halves); });
  });
  return halves;
}

}  // namespace lowtide::stash
