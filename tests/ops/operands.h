#pragma once

#include <string>
#include <vector>

#include "builder/functions.h"

namespace lowtide::testing {

/// Layouts of a tensor in memory.
enum class Layout {
  contiguous,
  transposed,     ///< the last two dimensions swapped
  channels_last,  ///< N x H x W x C, for four dimensions
  stepped,        ///< every second element of the last dimension
  expanded,       ///< the first dimension repeats
  offset          ///< without the first row of a larger tensor
};

inline const std::vector<Layout>& all_layouts() {
  static const std::vector<Layout> all = {Layout::contiguous,    Layout::transposed,
                                          Layout::channels_last, Layout::stepped,
                                          Layout::expanded,      Layout::offset};
  return all;
}

/// A value (not a resident tensor) of this shape.
inline Value fresh_value(Builder& b, Shape shape, DType dtype = DType::f32) {
  const std::string name = "in" + std::to_string(b.data().tensors.size());
  return clone(b.input(name, std::move(shape), dtype));
}

/// The same in this layout, a view of a value; contiguous where the layout needs more dimensions.
inline Value operand(Builder& b, Shape shape, DType dtype = DType::f32,
                     Layout layout = Layout::contiguous) {
  const bool fits = layout == Layout::channels_last ? shape.size() == 4
                    : layout == Layout::transposed  ? shape.size() >= 2
                                                    : !shape.empty();
  if (!fits) return fresh_value(b, shape, dtype);
  switch (layout) {
    case Layout::contiguous: return fresh_value(b, shape, dtype);
    case Layout::transposed:
      std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
      return transpose(fresh_value(b, shape, dtype), -1, -2);
    case Layout::channels_last:
      return permute(fresh_value(b, {shape[0], shape[2], shape[3], shape[1]}, dtype), {0, 3, 1, 2});
    case Layout::stepped: {
      Shape wide = shape;
      wide.back() = 2 * wide.back();
      return slice(fresh_value(b, wide, dtype), -1, 0, wide.back(), 2);
    }
    case Layout::expanded: {
      Shape narrow = shape;
      narrow.front() = 1;
      return b.call1("aten::expand", {fresh_value(b, narrow, dtype), shape});
    }
    case Layout::offset: {
      Shape tall = shape;
      tall.front() += 1;
      return slice(fresh_value(b, tall, dtype), 0, 1, tall.front());
    }
  }
  return {};
}

}  // namespace lowtide::testing
