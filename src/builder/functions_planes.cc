#include "builder/apply.h"
#include "builder/functions.h"

/// Convolution, pooling and resizing of N x C x H x W planes.
namespace lowtide {
namespace {

Value convolution(Value x, Value weight, Value bias, const ConvOptions& options, bool transposed) {
  autocast(transposed ? "conv_transpose2d" : "conv2d", {&x, &weight, &bias});
  return apply("aten::convolution",
               {x, weight, bias, options.stride, options.padding, options.dilation, transposed,
                std::vector<std::int64_t>{0, 0}, options.groups});
}

const std::vector<std::int64_t>& stride_of(const PoolOptions& options) {
  return options.stride.empty() ? options.kernel : options.stride;
}

}  // namespace

Value conv2d(Value x, Value weight, Value bias, const ConvOptions& options) {
  return convolution(x, weight, bias, options, false);
}

Value conv_transpose2d(Value x, Value weight, Value bias, const ConvOptions& options) {
  return convolution(x, weight, bias, options, true);
}

std::pair<Value, Value> max_pool2d_with_indices(Value x, const PoolOptions& options) {
  const auto results = x.builder().call("aten::max_pool2d_with_indices",
                                        {x, options.kernel, stride_of(options), options.padding,
                                         std::vector<std::int64_t>{1, 1}, options.ceil_mode});
  return {results[0], results[1]};
}

Value max_pool2d(Value x, const PoolOptions& options) {
  return max_pool2d_with_indices(x, options).first;
}

Value max_unpool2d(Value x, Value indices, std::int64_t height, std::int64_t width) {
  return apply("aten::max_unpool2d", {x, indices, std::vector{height, width}});
}

Value avg_pool2d(Value x, const PoolOptions& options) {
  return apply("aten::avg_pool2d",
               {x, options.kernel, stride_of(options), options.padding, options.ceil_mode});
}

Value global_avg_pool2d(Value x) { return mean(x, {-1, -2}, true); }

Value adaptive_avg_pool2d(Value x, std::int64_t height, std::int64_t width) {
  return apply("aten::_adaptive_avg_pool2d", {x, std::vector{height, width}});
}

Value upsample_bilinear2d(Value x, std::int64_t height, std::int64_t width) {
  return apply("aten::upsample_bilinear2d", {x, std::vector{height, width}, false});
}

Value upsample_nearest2d(Value x, std::int64_t height, std::int64_t width) {
  return apply("aten::upsample_nearest2d", {x, std::vector{height, width}});
}

}  // namespace lowtide
