#include "packing/greedy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "packing/sweep.h"

namespace lowtide::packing {
namespace {

/// Work of placing one buffer, and of starting an order, comparisons left out.
constexpr std::int64_t kPlacement = 8;
constexpr std::int64_t kStart = 500;
/// Orders are tried only with at least this work, relative to the squared number of buffers.
constexpr double kWorthBeginning = 0.5;
/// Most random orders by size.
constexpr int kMixedOrders = 12;

/// Positions of the buffers that need an address.
Order positions(const std::vector<Buffer>& buffers) {
  Order result;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (takes_room(buffers[i])) result.push_back(static_cast<std::int32_t>(i));
  }
  return result;
}

bool is_constrained(const Buffer& buffer) { return buffer.alignment > 1 || buffer.fixed; }

/// The time-reversed problem, which has the same packings. Unlike minus, ~ is defined for every
/// time.
std::vector<Buffer> reversed(std::vector<Buffer> buffers) {
  for (Buffer& buffer : buffers) {
    std::swap(buffer.begin, buffer.end);
    buffer.begin = ~buffer.begin;
    buffer.end = ~buffer.end;
  }
  return buffers;
}

/// Places buffers one by one in a given order, each at the lowest (first fit) or tightest (best
/// fit) address that is free over its whole life.
class OrderedPacker {
 public:
  OrderedPacker(const std::vector<Buffer>& buffers, std::int64_t most_work)
      : buffers_(buffers), most_work_(most_work) {}

  bool is_used_up() const { return work_ >= most_work_; }

  /// Returns nothing when the work is used up and `may_stop`.
  std::optional<Packing> place(const Order& order, Fit fit, bool may_stop) {
    work_ += kStart;
    placed_.clear();
    placed_.reserve(order.size());
    Packing packing{std::vector<Bytes>(buffers_.size()), 0};
    for (std::int32_t i : order) {
      if (buffers_[i].fixed) put(i, *buffers_[i].fixed, packing);
    }
    for (std::int32_t i : order) {
      if (may_stop && is_used_up()) return std::nullopt;
      if (!buffers_[i].fixed) put(i, find(buffers_[i], fit), packing);
    }
    return packing;
  }

 private:
  void put(std::int32_t i, Bytes offset, Packing& packing) {
    insert({offset, offset + buffers_[i].bytes, buffers_[i].begin, buffers_[i].end});
    packing.offsets[i] = offset;
    packing.height = std::max(packing.height, offset + buffers_[i].bytes);
  }

  struct Placed {
    Bytes offset, top;
    std::int32_t begin, end;
  };

  Bytes find(const Buffer& buffer, Fit fit) {
    Bytes top = 0;                                    // of the buffers passed so far
    std::optional<std::pair<Bytes, Bytes>> tightest;  // slack, offset
    const auto stop = placed_.end();
    auto at = placed_.begin();
    for (; at != stop; ++at) {
      if (at->end <= buffer.begin || buffer.end <= at->begin) continue;
      const Bytes offset = align_up(top, buffer.alignment);
      const Bytes slack = at->offset - offset - buffer.bytes;
      if (slack >= 0 && (!tightest || slack < tightest->first)) {
        tightest = {slack, offset};
        if (fit == Fit::first) break;
      }
      top = std::max(top, at->top);
    }
    work_ += kPlacement + (at - placed_.begin());
    return tightest ? tightest->second : align_up(top, buffer.alignment);
  }

  void insert(const Placed& placed) {
    const auto at = std::ranges::upper_bound(placed_, placed.offset, {}, &Placed::offset);
    placed_.insert(at, placed);
  }

  const std::vector<Buffer>& buffers_;
  std::vector<Placed> placed_;  // by offset
  std::int64_t most_work_;
  std::int64_t work_ = 0;
};

using Key = std::pair<double, double>;  // larger is placed first
using KeyOf = Key (*)(const Buffer&, Bytes load);

double duration(const Buffer& buffer) { return static_cast<double>(buffer.end) - buffer.begin; }
double area(const Buffer& buffer) { return duration(buffer) * static_cast<double>(buffer.bytes); }

/// Equal sizes, which are common in networks, by begin.
Key by_size(const Buffer& buffer, Bytes) { return {static_cast<double>(buffer.bytes), 0}; }
Key by_size_and_end(const Buffer& buffer, Bytes) {
  return {static_cast<double>(buffer.bytes), static_cast<double>(buffer.end)};
}
Key by_size_and_duration(const Buffer& buffer, Bytes) {
  return {static_cast<double>(buffer.bytes), duration(buffer)};
}
Key by_size_and_load(const Buffer& buffer, Bytes load) {
  return {static_cast<double>(buffer.bytes), static_cast<double>(load)};
}
Key by_area(const Buffer& buffer, Bytes) { return {area(buffer), 0}; }
Key by_duration(const Buffer& buffer, Bytes) { return {duration(buffer), 0}; }
Key by_begin(const Buffer& buffer, Bytes) { return {-static_cast<double>(buffer.begin), 0}; }
/// Places buffers alive at the peak first, without waste; then the rest around them.
Key by_load(const Buffer& buffer, Bytes load) {
  return {static_cast<double>(load), duration(buffer)};
}
Key by_load_and_area(const Buffer& buffer, Bytes load) {
  return {static_cast<double>(load), area(buffer)};
}

/// Keeps the lowest packing seen.
class Search {
 public:
  Search(const std::vector<Buffer>& buffers, const std::vector<Bytes>& loads, Bytes lower,
         std::int64_t most_work)
      : buffers_(buffers), loads_(loads), packer_(buffers, most_work), lower_(lower) {}

  bool found() const { return best_.height < std::numeric_limits<Bytes>::max(); }
  bool done() const { return best_.height <= lower_; }
  Packing take_best() { return std::move(best_); }

  void sweep_both_ways(const Order& items) {
    const std::vector<Buffer> backwards = reversed(buffers_);
    for (const auto* problem : {&buffers_, &backwards}) {
      for (Fit fit : {Fit::best, Fit::first}) {
        if (!done()) offer(sweep(*problem, items, fit));
      }
    }
  }

  /// Largest key first; ties: larger, then earlier, then first listed.
  Order ordered(Order order, KeyOf key_of) const {
    const auto key = [&](std::int32_t i) {
      const Buffer& buffer = buffers_[i];
      const auto [first, second] = key_of(buffer, loads_[i]);
      return std::tuple(-first, -second, -buffer.bytes, buffer.begin, i);
    };
    std::ranges::sort(order, {}, key);
    return order;
  }

  void try_orders(const Order& items) {
    for (KeyOf key : {by_size, by_size_and_end, by_size_and_duration, by_size_and_load}) {
      place(ordered(items, key), Fit::first);
    }
    for (int i = 0; i < kMixedOrders && !is_over(); ++i) place(mixed(items), Fit::first);
    place(ordered(items, by_size), Fit::best);
    for (KeyOf key : {by_area, by_load, by_load_and_area, by_duration, by_begin}) {
      const Order order = ordered(items, key);
      for (Fit fit : {Fit::first, Fit::best}) place(order, fit);
    }
  }

 private:
  /// Largest first. Draws an order for the buffers of each size, since the best order of one size
  /// depends on the orders of the others.
  Order mixed(Order order) {
    using TieBreak = double (*)(const Buffer&, Bytes load);
    constexpr std::array<TieBreak, 6> kTieBreaks = {
        [](const Buffer& b, Bytes) { return static_cast<double>(b.begin); },
        [](const Buffer& b, Bytes) { return -static_cast<double>(b.begin); },
        [](const Buffer& b, Bytes) { return static_cast<double>(b.end); },
        [](const Buffer& b, Bytes) { return -static_cast<double>(b.end); },
        [](const Buffer& b, Bytes) { return -duration(b); },
        [](const Buffer&, Bytes load) { return -static_cast<double>(load); }};
    std::map<Bytes, TieBreak> drawn;
    const auto key = [&](std::int32_t i) {
      const Buffer& buffer = buffers_[i];
      TieBreak& order = drawn[buffer.bytes];
      if (order == nullptr) order = kTieBreaks[random_() % kTieBreaks.size()];
      return std::tuple(-buffer.bytes, order(buffer, loads_[i]), i);
    };
    std::vector<std::tuple<Bytes, double, std::int32_t>> keys;
    for (std::int32_t i : order) keys.push_back(key(i));
    std::ranges::sort(keys);
    std::ranges::transform(keys, order.begin(), [](const auto& k) { return std::get<2>(k); });
    return order;
  }

  void offer(Packing packing) {
    if (packing.height < best_.height) best_ = std::move(packing);
  }

  bool is_over() const { return done() || (found() && packer_.is_used_up()); }

  void place(const Order& order, Fit fit) {
    if (done() || order.empty()) return;
    if (std::optional<Packing> packing = packer_.place(order, fit, found())) {
      offer(std::move(*packing));
    }
  }

  const std::vector<Buffer>& buffers_;
  const std::vector<Bytes>& loads_;
  OrderedPacker packer_;
  std::mt19937_64 random_;
  Bytes lower_;
  Packing best_{{}, std::numeric_limits<Bytes>::max()};
};

}  // namespace

Packing greedy_packing(const std::vector<Buffer>& buffers, const std::vector<Bytes>& loads,
                       Bytes lower, std::int64_t most_work) {
  const Order items = positions(buffers);
  if (items.empty()) return {std::vector<Bytes>(buffers.size()), 0};
  Search search(buffers, loads, lower, most_work);
  if (std::ranges::none_of(buffers, is_constrained)) search.sweep_both_ways(items);
  const auto n = static_cast<double>(items.size());
  const bool has_time = kWorthBeginning * n * n <= static_cast<double>(most_work);
  if (has_time || !search.found()) search.try_orders(items);
  return search.take_best();
}

}  // namespace lowtide::packing
