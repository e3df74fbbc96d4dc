#include "offload/first_prices.h"

#include <algorithm>
#include <limits>

#include "offload/loads.h"
#include "plan/plan.h"

namespace lowtide::offload {
namespace {

/// Of the time of its copies: the price of a load.
constexpr double kFirstPrice = 0.05;
/// Values that rest for long are moved first: their copies have the most time. The factor of the
/// price of one that does not rest; of one that rests all the time it is 1 less.
constexpr double kShortRest = 1.5;

}  // namespace

FirstPrices::FirstPrices(const Graph& graph, const Lanes& lanes, std::optional<Bytes> slower_bytes)
    : graph_(graph), lanes_(lanes), slower_bytes_(slower_bytes), movable_(movable(graph)) {
  begins_.push_back(0);
  for (const Op& op : graph.ops()) begins_.push_back(begins_.back() + op.cost);
  total_cost_ = std::max(begins_.back(), std::numeric_limits<double>::min());
}

std::vector<std::optional<double>> FirstPrices::choose(double least_worth,
                                                       std::span<const TensorId> residents,
                                                       Together together) const {
  const bool is_limited = slower_bytes_ && together == Together::all_at_once;
  std::vector<TensorId> chosen;
  for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
    // Without a limit, it takes nothing from others to let the search decide.
    const bool may = movable_[id] && (!is_limited || rests(id));
    if (may && worth(id) >= least_worth) chosen.push_back(id);
  }
  std::ranges::stable_sort(chosen, std::ranges::greater{}, [&](TensorId id) { return worth(id); });
  std::vector<std::optional<double>> prices(graph_.tensors().size());
  Bytes left = is_limited ? *slower_bytes_ : std::numeric_limits<Bytes>::max();
  for (TensorId id : residents) {
    const Bytes bytes = graph_.tensor(id).bytes;
    left -= std::min(left, align_up(bytes, kCopyAlignment));
    prices[id] = kFirstPrice * lanes_.in.time(bytes);
  }
  for (TensorId id : chosen) {
    const Bytes bytes = graph_.tensor(id).bytes;
    if (bytes > left) continue;
    left -= std::min(left, align_up(bytes, kCopyAlignment));
    prices[id] =
        kFirstPrice * lanes_.time_of_both(bytes) * (kShortRest - longest_rest(id) / total_cost_);
  }
  return prices;
}

/// Whether other ops stand between two uses of it, so that it can be away meanwhile.
bool FirstPrices::rests(TensorId id) const {
  const std::vector<OpId> uses = uses_of(id);
  return std::ranges::adjacent_find(uses, [](OpId a, OpId b) { return b > a + 1; }) != uses.end();
}

/// The longest time of other ops between two uses of it, where each op runs once.
double FirstPrices::longest_rest(TensorId id) const {
  const std::vector<OpId> uses = uses_of(id);
  double longest = 0;
  for (std::size_t i = 1; i < uses.size(); ++i) {
    longest = std::max(longest, begins_[uses[i]] - begins_[uses[i - 1] + 1]);
  }
  return longest;
}

/// The ops that make it or read it or a view of it, in the graph's order.
std::vector<OpId> FirstPrices::uses_of(TensorId id) const {
  std::vector<OpId> uses{graph_.producer(id)};
  const auto add_readers = [&](TensorId of) {
    for (OpId reader : graph_.readers(of)) {
      if (!graph_.is_view_op(reader)) uses.push_back(reader);
    }
  };
  add_readers(id);
  std::ranges::for_each(graph_.views(id), add_readers);
  std::ranges::sort(uses);
  uses.erase(std::ranges::unique(uses).begin(), uses.end());
  return uses;
}

double FirstPrices::worth(TensorId id) const {
  const double copies = lanes_.time_of_both(graph_.tensor(id).bytes);
  const double rerun = graph_.op(graph_.producer(id)).cost;
  return copies > 0 ? rerun / copies : std::numeric_limits<double>::infinity();
}

}  // namespace lowtide::offload
