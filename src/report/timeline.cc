#include "report/timeline.h"

#include "plan/lanes.h"

namespace lowtide::report {
namespace {

/// Follows the clock of a plan through its actions.
class ActionClock {
 public:
  ActionClock(const Graph& graph, const Plan& plan)
      : graph_(graph),
        lanes_(plan.slower ? plan.slower->lanes : Lanes{}),
        clock_(lanes_),
        copied_at_(graph.num_tensors()) {}

  Moment act(const Action& action) {
    const double reached = clock_.now();
    switch (action.verb) {
      case Verb::run: clock_.run(graph_.op(action.index).cost); break;
      case Verb::wait: clock_.wait_until(copied_at_[graph_.storage(action.index)]); break;
      case Verb::offload: return copy(action, lanes_.out.time(bytes(action)), false);
      case Verb::prefetch: return copy(action, lanes_.in.time(bytes(action)), true);
      case Verb::free: break;
    }
    return {reached, reached, clock_.now()};
  }

 private:
  Bytes bytes(const Action& action) const {
    return graph_.tensor(graph_.storage(action.index)).bytes;
  }

  Moment copy(const Action& action, double time, bool is_back) {
    const double end = is_back ? clock_.start_in(bytes(action)) : clock_.start_out(bytes(action));
    copied_at_[graph_.storage(action.index)] = end;
    return {clock_.now(), end - time, end};
  }

  const Graph& graph_;
  Lanes lanes_;
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
