#include "strategy/search/mixture.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "remat/moves.h"

namespace lowtide::strategy::search {
namespace {

bool by_op(const remat::Event& a, const remat::Event& b) {
  return std::pair(a.op, a.stage) < std::pair(b.op, b.stage);
}

/// The events of ops in [begin, end); events are sorted by op.
std::span<const remat::Event> of_ops(const std::vector<remat::Event>& events, int begin, int end) {
  const auto first = std::ranges::lower_bound(events, begin, {}, &remat::Event::op);
  const auto last = std::ranges::lower_bound(events, end, {}, &remat::Event::op);
  return {first, last};
}

}  // namespace

Mixture::Mixture(const remat::StageGraph& graph, std::vector<remat::Event> cheaper,
                 std::vector<remat::Event> smaller)
    : graph_(graph), plan_(graph, 0) {
  std::ranges::sort(cheaper, by_op);
  std::ranges::sort(smaller, by_op);
  for (remat::Event event : cheaper) plan_.add(event);
  std::ranges::set_difference(cheaper, smaller, std::back_inserter(cheaper_), by_op);
  std::ranges::set_difference(smaller, cheaper, std::back_inserter(smaller_), by_op);
}

std::optional<std::vector<remat::Event>> Mixture::within(Bytes limit) {
  plan_.set_limit(limit);
  int too_few = -1;
  int enough = graph_.num_stages();
  while (enough - too_few > 1) {
    const int middle = too_few + (enough - too_few) / 2;
    move_to(middle);
    (plan_.fits() ? enough : too_few) = middle;
  }
  move_to(enough);
  if (!plan_.fits()) return std::nullopt;
  remat::EventPlan pruned = plan_;
  remat::Moves(graph_, pruned).prune_all();
  return pruned.events();
}

void Mixture::move_to(int stage) {
  if (stage > border_) {
    exchange(of_ops(cheaper_, border_, stage), of_ops(smaller_, border_, stage));
  } else {
    exchange(of_ops(smaller_, stage, border_), of_ops(cheaper_, stage, border_));
  }
  border_ = stage;
}

void Mixture::exchange(std::span<const remat::Event> out, std::span<const remat::Event> in) {
  for (remat::Event event : out) plan_.remove(event);
  for (remat::Event event : in) plan_.add(event);
}

}  // namespace lowtide::strategy::search
