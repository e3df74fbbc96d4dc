#include "base/at.h"
#include "slices/rule.h"

// Convolution and pooling of N x C x H x W: each image apart.
namespace lowtide::slices {
namespace {

using Found = std::optional<Cut>;

/// Whether the rows of argument `i` are images.
bool has_images(const CutQuestion& q, std::size_t i) {
  return q.shape(i).size() == 4 && q.rows(i) == Rows{};
}

/// Rows are images at the arguments kImages, of which the first is a batch.
template <std::size_t... kImages>
Found of_each_image(const CutQuestion& q) {
  const bool all = ((q.argument_has(kImages, Rows{})) && ...);
  const bool any = ((has_images(q, kImages)) || ...);
  return all && any ? Found(q.cut({kImages...}, Rows{})) : std::nullopt;
}

/// (input, weight, bias, ...)
Found convolution(const CutQuestion& q) {
  return has_images(q, 0) && !q.rows(1) ? Found(q.cut({0}, Rows{})) : std::nullopt;
}

/// (gradient, input, weight, ..., which of the gradients are wanted)
Found convolution_backward(const CutQuestion& q) {
  if (!has_images(q, 0) && !has_images(q, 1)) return std::nullopt;
  if (!q.argument_has(0, Rows{}) || !q.argument_has(1, Rows{}) || q.rows(2)) return std::nullopt;
  Cut cut = q.cut({0, 1}, Rows{}, kTotal);
  if (q.call().integers(10).at(0) != 0) cut.made.front() = part_of(Rows{});
  return cut;
}

constexpr SliceRule kImageRules[] = {
    {"aten::convolution", convolution},
    {"aten::convolution_backward", convolution_backward},
    {"aten::max_pool2d_with_indices", of_each_image<0>},
    {"aten::max_pool2d_with_indices_backward", of_each_image<0, 1, 7>},
    {"aten::avg_pool2d", of_each_image<0>},
    {"aten::avg_pool2d_backward", of_each_image<0, 1>},
    {"aten::max_unpool2d", of_each_image<0, 1>},
};

}  // namespace

std::span<const SliceRule> image_rules() { return kImageRules; }

}  // namespace lowtide::slices
