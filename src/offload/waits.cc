#include "offload/waits.h"

#include <algorithm>
#include <optional>
#include <utility>

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
  Follower(const Graph& graph, const Lanes& lanes)
      : graph_(graph),
        lanes_(lanes),
        clock_(lanes),
        under_way_(graph.tensors().size()),
        blame_(graph.tensors().size()) {}

  void act(const Action& action) {
    switch (action.verb) {
      case Verb::run: clock_.run(graph_.op(action.index).cost); break;
      case Verb::offload: start(action.index, out_, lanes_.out, true); break;
      case Verb::prefetch: start(action.index, lanes_.shared ? out_ : in_, lanes_.in, false); break;
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

  void start(TensorId id, Queue& queue, const Lane& lane, bool is_out) {
    const TensorId storage = graph_.storage(id);
    const Bytes bytes = graph_.tensor(storage).bytes;
    queue.start(storage, lane.time(bytes), clock_.now());
    const double end = is_out ? clock_.start_out(bytes) : clock_.start_in(bytes);
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
  const Lanes lanes_;
  LaneClock clock_;
  Queue out_, in_;
  std::vector<std::optional<UnderWay>> under_way_;
  std::vector<double> blame_;
};

}  // namespace

std::vector<double> time_of_waits(const Graph& graph, const Plan& plan) {
  Follower follower(graph, plan.slower ? plan.slower->lanes : Lanes{});
  for (const Action& action : plan.actions) follower.act(action);
  return follower.take();
}

}  // namespace lowtide::offload
