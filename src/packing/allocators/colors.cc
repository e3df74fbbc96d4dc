#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "packing/allocators/requests.h"

namespace lowtide::packing::allocators {
namespace {

/// Largest ratio of the sizes of two values that share a color.
constexpr Bytes kMatch = 16;

/// Colors that values share one after the other; each is as large as its largest value. One pass
/// over the step; only whole colors get memory, at the end.
class Colors {
 public:
  explicit Colors(Bytes unit) : unit_(unit) {}

  /// The color for this many bytes: the smallest free color that is large enough, else the largest
  /// free color, which grows, else a new color.
  std::size_t take(Bytes bytes) {
    bytes = align_up(bytes, unit_);
    auto found = free_.lower_bound({bytes, 0});
    if (found == free_.end() || found->first / kMatch > bytes) {
      const bool grows = found != free_.begin() && std::prev(found)->first * kMatch >= bytes;
      if (!grows) return add(bytes);
      --found;
    }
    const std::size_t color = found->second;
    free_.erase(found);
    sizes_[color] = std::max(sizes_[color], bytes);
    return color;
  }
  void give(std::size_t color) { free_.emplace(sizes_[color], color); }

  const std::vector<Bytes>& sizes() const { return sizes_; }

 private:
  std::size_t add(Bytes bytes) {
    sizes_.push_back(bytes);
    return sizes_.size() - 1;
  }

  Bytes unit_;
  std::vector<Bytes> sizes_;                      // per color
  std::set<std::pair<Bytes, std::size_t>> free_;  // size, color
};

Pooled share_colors(const std::vector<Buffer>& buffers, Bytes unit) {
  constexpr std::size_t kNoColor = ~std::size_t{0};
  Colors colors(unit);
  std::vector<std::size_t> color_of(buffers.size(), kNoColor);
  for (const auto& [buffer, gives_back] : requests_of(buffers)) {
    if (gives_back) {
      colors.give(color_of[buffer]);
    } else {
      color_of[buffer] = colors.take(buffers[buffer].bytes);
    }
  }
  Pooled pooled{std::vector<Bytes>(buffers.size()), std::vector<Bytes>(buffers.size()), 0};
  std::vector<Bytes> begins;
  for (Bytes size : colors.sizes()) {
    begins.push_back(pooled.height);
    pooled.height += size;
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (color_of[i] == kNoColor) continue;
    pooled.offsets[i] = begins[color_of[i]];
    pooled.blocks[i] = colors.sizes()[color_of[i]];
  }
  return pooled;
}

}  // namespace

PoolStrategy colors_pool() {
  return {
      .name = "colors",
      .summary = "MXNet's planner: values share a color in turn; the largest sets its size",
      .source = "Chen et al., MXNet, LearningSys 2015; nnvm/src/pass/plan_memory.cc",
      .serve = share_colors,
  };
}

}  // namespace lowtide::packing::allocators
