#include "offload/waits.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/places.h"

namespace lowtide::offload {
namespace {

/// A copy, one of those that a lane does without a pause.
struct Queued {
  TensorId storage;
  double time;
};

/// The copies of a lane since it was idle.
class Queue {
 public:
  void start(TensorId storage, double time, double now) {
    if (end_ <= now) copies_.clear();
    copies_.push_back({storage, time});
    end_ = std::max(end_, now) + time;
  }

  /// Adds what was waited for a copy to those up to it.
  void blame(TensorId storage, double waited, std::vector<double>& blame) const {
    const auto last =
        std::ranges::find(copies_.rbegin(), copies_.rend(), storage, &Queued::storage);
    for (auto copy = last; copy != copies_.rend(); ++copy) {
      blame[copy->storage] += std::min(waited, copy->time);
    }
  }

 private:
  std::vector<Queued> copies_;
  double end_ = 0;
};

class Follower {
 public:
  Follower(const Graph& graph, const Plan& plan)
      : graph_(graph),
        lanes_(lanes_of_places(plan)),
        place_(places_of_copies(graph, plan)),
        clock_(lanes_),
        under_way_(graph.tensors().size()),
        blame_(graph.tensors().size()) {}

  void act(const Action& action) {
    switch (action.verb) {
      case Verb::run: clock_.run(graph_.op(action.index).cost); break;
      case Verb::offload: start(graph_.storage(action.index), true); break;
      case Verb::prefetch: start(graph_.storage(action.index), false); break;
      case Verb::wait: wait(graph_.storage(action.index)); break;
      case Verb::free: break;
    }
  }

  std::vector<double> take() { return std::move(blame_); }

 private:
  struct UnderWay {
    double end;
    const Queue* queue;
  };

  /// Of a place.
  struct Queues {
    Queue out, in;
  };

  void start(TensorId storage, bool is_out) {
    const PlaceIndex place = place_[storage];
    const Lanes& lanes = lanes_.of(place);
    Queues& queues = place == PlaceIndex::first ? first_ : second_;
    Queue& queue = is_out || lanes.shared ? queues.out : queues.in;
    const Bytes bytes = graph_.tensor(storage).bytes;
    queue.start(storage, (is_out ? lanes.out : lanes.in).time(bytes), clock_.now());
    const double end = is_out ? clock_.start_out(bytes, place) : clock_.start_in(bytes, place);
    under_way_[storage] = UnderWay{end, &queue};
  }

  void wait(TensorId storage) {
    const std::optional<UnderWay> copy = std::exchange(under_way_[storage], std::nullopt);
    if (copy && copy->end > clock_.now()) {
      copy->queue->blame(storage, copy->end - clock_.now(), blame_);
    }
    if (copy) clock_.wait_until(copy->end);
  }

  const Graph& graph_;
  const PlaceLanes lanes_;
  const std::vector<PlaceIndex> place_;  // by storage: of its copy
  LaneClock clock_;
  Queues first_, second_;
  std::vector<std::optional<UnderWay>> under_way_;
  std::vector<double> blame_;
};

}  // namespace

std::vector<double> time_of_waits(const Graph& graph, const Plan& plan) {
  Follower follower(graph, plan);
  for (const Action& action : plan.actions) follower.act(action);
  return follower.take();
}

}  // namespace lowtide::offload
