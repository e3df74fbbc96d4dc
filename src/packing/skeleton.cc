#include "packing/skeleton.h"

#include <algorithm>
#include <array>
#include <utility>

#include "packing/ejection_search.h"

namespace lowtide::packing {
namespace {

/// Smallest item of a skeleton: lower bound / part, coarsest first; the last one has all items.
constexpr std::array<Bytes, 2> kParts{1000, 4000};
constexpr double kNearlyAll = 0.95;

bool is_large(const Item& item, Bytes least) {
  return item.bytes >= least || item.fixed != Item::kFree;
}

}  // namespace

Skeleton skeleton_of(const Instance& whole, Bytes least) {
  std::vector<Buffer> buffers;
  std::vector<std::int32_t> items;
  for (std::size_t i = 0; i < whole.items.size(); ++i) {
    const Item& item = whole.items[i];
    if (!is_large(item, least)) continue;
    Buffer buffer{item.first, item.last + 1, item.bytes, item.alignment};
    if (item.fixed != Item::kFree) buffer.fixed = item.fixed;
    buffers.push_back(buffer);
    items.push_back(static_cast<std::int32_t>(i));
  }
  return {instance_of(buffers), std::move(items)};
}

std::vector<Skeleton> skeletons(const Instance& whole) {
  const Bytes bound = lower_bound(whole);
  std::vector<Skeleton> result;
  std::size_t next = whole.items.size();
  result.push_back(skeleton_of(whole, 0));
  for (auto part = kParts.rbegin(); part != kParts.rend(); ++part) {
    Skeleton skeleton = skeleton_of(whole, bound / *part);
    const auto count = static_cast<double>(skeleton.items.size());
    if (count == 0 || count > kNearlyAll * static_cast<double>(next)) continue;
    next = skeleton.items.size();
    result.push_back(std::move(skeleton));
  }
  std::ranges::reverse(result);
  return result;
}

std::vector<Bytes> offsets_of_whole(const Skeleton& skeleton, const std::vector<Bytes>& offsets,
                                    const Instance& whole) {
  std::vector<Bytes> result(whole.items.size(), EjectionSearch::kUnplaced);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    result[skeleton.items[skeleton.instance.buffers[i]]] = offsets[i];
  }
  return result;
}

}  // namespace lowtide::packing
