#include "packing/body_greedy.h"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

namespace lowtide::packing {
namespace {

constexpr std::int64_t kShare = 8;  // of the work
constexpr int kMostSwaps = 2000;

using Order = std::vector<std::int32_t>;

struct Placed {
  std::vector<Bytes> offsets;  ///< per body
  Bytes height = 0;
};

/// Offsets [first, last) at which a body would overlap a placed member.
struct Forbidden {
  Bytes first, last;
};

class Placer {
 public:
  Placer(const std::vector<Buffer>& buffers, const std::vector<Body>& bodies, Bytes alignment)
      : buffers_(buffers), bodies_(bodies), alignment_(alignment) {}

  Placed place(const Order& order) {
    Placed placed{std::vector<Bytes>(bodies_.size()), 0};
    at_.assign(buffers_.size(), 0);
    present_.clear();
    for (std::int32_t b : order) {
      const Bytes base = bodies_[b].block.fixed ? *bodies_[b].block.fixed : lowest(bodies_[b]);
      placed.offsets[b] = base;
      settle(bodies_[b], base, placed);
    }
    return placed;
  }

  std::int64_t work() const { return work_; }

 private:
  void settle(const Body& body, Bytes base, Placed& placed) {
    for (std::size_t m = 0; m < body.members.size(); ++m) {
      const std::int32_t i = body.members[m];
      if (!takes_room(buffers_[i])) continue;
      at_[i] = base + body.inner[m];
      placed.height = std::max(placed.height, at_[i] + buffers_[i].bytes);
      present_.push_back(i);
    }
  }

  /// The lowest aligned offset of the body that is not forbidden.
  Bytes lowest(const Body& body) {
    std::vector<Forbidden> forbidden;
    for (std::size_t m = 0; m < body.members.size(); ++m) forbid(body, m, forbidden);
    std::ranges::sort(forbidden, {}, &Forbidden::first);
    const Bytes alignment = std::max(alignment_, body.block.alignment);
    Bytes base = 0;
    for (const Forbidden& range : forbidden) {
      if (range.first > base) break;
      if (range.last > base) base = align_up(range.last, alignment);
    }
    return base;
  }

  void forbid(const Body& body, std::size_t m, std::vector<Forbidden>& forbidden) {
    const Buffer& buffer = buffers_[body.members[m]];
    if (!takes_room(buffer)) return;
    work_ += static_cast<std::int64_t>(present_.size());
    for (std::int32_t i : present_) {
      const Buffer& other = buffers_[i];
      if (buffer.end <= other.begin || other.end <= buffer.begin) continue;
      forbidden.push_back(
          {at_[i] - buffer.bytes - body.inner[m] + 1, at_[i] + other.bytes - body.inner[m]});
    }
  }

  const std::vector<Buffer>& buffers_;
  const std::vector<Body>& bodies_;
  Bytes alignment_;
  std::vector<Bytes> at_;              // per placed buffer
  std::vector<std::int32_t> present_;  // buffers
  std::int64_t work_ = 0;
};

/// Fixed bodies first, then by bytes times life.
Order first_order(const std::vector<Body>& bodies) {
  Order order;
  for (std::size_t b = 0; b < bodies.size(); ++b) order.push_back(static_cast<std::int32_t>(b));
  std::ranges::stable_sort(order, std::greater<>(), [&](std::int32_t b) {
    const Buffer& block = bodies[b].block;
    const auto life = static_cast<double>(block.end) - block.begin;
    return std::pair(block.fixed.has_value(), static_cast<double>(block.bytes) * life);
  });
  return order;
}

}  // namespace

std::vector<Bytes> greedy_bodies(const std::vector<Buffer>& buffers,
                                 const std::vector<Body>& bodies, const PackingGoal& goal,
                                 const Control& control) {
  Placer placer(buffers, bodies, goal.alignment);
  Order order = first_order(bodies);
  Placed best = placer.place(order);
  const auto fixed = static_cast<std::size_t>(
      std::ranges::count_if(bodies, [](const Body& body) { return body.block.fixed.has_value(); }));
  const std::size_t free = bodies.size() - fixed;
  std::mt19937 random;  // default seed: the same orders on every machine
  const std::int64_t most = std::min(goal.work, kPackingWork) / kShare;
  for (int i = 0; free > 1 && i < kMostSwaps && placer.work() < most; ++i) {
    if (control.should_stop()) break;
    Order other = order;
    std::swap(other[fixed + random() % free], other[fixed + random() % free]);
    Placed placed = placer.place(other);
    if (placed.height > best.height) continue;
    best = std::move(placed);
    order = std::move(other);
  }
  return best.offsets;
}

}  // namespace lowtide::packing
