#include "report/timeline.h"

#include "plan/places.h"

namespace lowtide::report {
namespace {

/// Follows the clock of a plan through its actions.
class ActionClock {
 public:
  ActionClock(const Graph& graph, const Plan& plan)
      : graph_(graph),
        lanes_(lanes_of_places(plan)),
        place_(places_of_copies(graph, plan)),
        clock_(lanes_),
        copied_at_(graph.num_tensors()) {}

  Moment act(const Action& action) {
    const double reached = clock_.now();
    switch (action.verb) {
      case Verb::run: clock_.run(graph_.op(action.index).cost); break;
      case Verb::wait: clock_.wait_until(copied_at_[graph_.storage(action.index)]); break;
      case Verb::offload: return copy(action, lanes_of(action).out, false);
      case Verb::prefetch: return copy(action, lanes_of(action).in, true);
      case Verb::free: break;
    }
    return {reached, reached, clock_.now()};
  }

 private:
  Bytes bytes(const Action& action) const {
    return graph_.tensor(graph_.storage(action.index)).bytes;
  }

  const Lanes& lanes_of(const Action& action) const {
    return lanes_.of(place_[graph_.storage(action.index)]);
  }

  Moment copy(const Action& action, const Lane& lane, bool is_back) {
    const TensorId storage = graph_.storage(action.index);
    const Bytes copied = bytes(action);
    const double end = is_back ? clock_.start_in(copied, place_[storage])
                               : clock_.start_out(copied, place_[storage]);
    copied_at_[storage] = end;
    return {clock_.now(), end - lane.time(copied), end};
  }

  const Graph& graph_;
  const PlaceLanes lanes_;
  const std::vector<PlaceIndex> place_;  // per storage: of its copy
  LaneClock clock_;
  std::vector<double> copied_at_;  // per storage: when its last copy ends
};

}  // namespace

std::vector<Moment> timeline(const Graph& graph, const Plan& plan) {
  ActionClock clock(graph, plan);
  std::vector<Moment> moments;
  moments.reserve(plan.actions.size());
  for (const Action& action : plan.actions) moments.push_back(clock.act(action));
  return moments;
}

}  // namespace lowtide::report
