#include "plan/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "plan/replay.h"

namespace lowtide {
namespace {

constexpr std::int32_t kNever = -1;
constexpr std::int32_t kResidentInstance = -2;

/// Binds every use to the latest earlier execution, inserts missing view ops, and finds the last
/// use of each storage.
///
/// An *instance* of a storage is one execution that makes it, named by its position in runs(). A
/// view belongs to the instance of its storage from which it was made, and is live while that
/// instance is the current one.
class Binder {
 public:
  explicit Binder(const Graph& graph)
      : graph_(graph),
        instance_(graph.num_tensors(), kNever),
        last_use_(graph.num_tensors()),
        made_(graph.num_tensors()),
        ran_(graph.num_ops()) {
    for (TensorId id = 0; id < graph.num_tensors(); ++id) {
      if (graph.tensor(id).alias_of == kNone && graph.is_resident(id)) {
        instance_[id] = kResidentInstance;
      }
    }
  }

  /// Runs the op, after the missing view ops of its inputs. Skips a view op whose outputs are
  /// live.
  void execute(OpId id) {
    pending_.push_back(id);
    while (!pending_.empty()) {
      const OpId next = pending_.back();
      if (is_live_view_op(next)) {
        pending_.pop_back();
      } else if (!push_missing_views(next)) {
        pending_.pop_back();
        run(next);
      }
    }
  }

  std::vector<Action> finish() {
    for (TensorId id : graph_.outputs()) {
      if (!is_live(id)) execute(producer_of_missing(id, "the end of the plan"));
    }
    std::vector<bool> kept(instance_.size());
    for (TensorId id : graph_.outputs()) kept[graph_.storage(id)] = true;
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      if (owns_value(id) && instance_[id] != kNever && !kept[id]) die(id);
    }
    return actions();
  }

 private:
  /// Those with one last use end in the order in which they were made, whatever their numbers are:
  /// so a plan does not depend on how the graph numbers its tensors.
  struct Death {
    std::int32_t last_use, made;
    TensorId storage;
    auto operator<=>(const Death&) const = default;
  };

  bool owns_value(TensorId id) const {
    return graph_.tensor(id).alias_of == kNone && graph_.tensor(id).kind == Kind::value;
  }

  bool is_live(TensorId id) const {
    return instance_[id] != kNever && instance_[id] == instance_[graph_.storage(id)];
  }

  bool is_live_view_op(OpId id) const {
    return graph_.is_view_op(id) &&
           std::ranges::all_of(graph_.op(id).outputs, [&](TensorId out) { return is_live(out); });
  }

  /// The view op to run for a tensor that `user` needs.
  OpId producer_of_missing(TensorId id, const std::string& user) const {
    const OpId producer = graph_.producer(id);
    if (graph_.tensor(id).alias_of != kNone && graph_.is_view_op(producer)) return producer;
    throw std::logic_error(fmt::format("{} needs tensor {} ({}), which no earlier execution makes",
                                       user, id, graph_.tensor(id).name));
  }

  /// Returns whether any view op was missing.
  bool push_missing_views(OpId id) {
    bool any = false;
    for (TensorId in : graph_.op(id).inputs) {
      if (is_live(in)) continue;
      pending_.push_back(producer_of_missing(in, graph_.op(id).name));
      any = true;
    }
    return any;
  }

  void run(OpId id) {
    const Op& op = graph_.op(id);
    const auto now = static_cast<std::int32_t>(runs_.size());
    if (ran_[id] && !op.recomputable) {
      throw std::logic_error(fmt::format("{} may run only once, and runs again", op.name));
    }
    ran_[id] = true;
    runs_.push_back(id);
    for (TensorId in : op.inputs) last_use_[graph_.storage(in)] = now;
    for (TensorId out : op.outputs) {
      if (owns_value(out)) make(out, now);
    }
    for (TensorId out : op.outputs) {
      if (!owns_value(out)) make_view(out, now);
    }
  }

  void make(TensorId id, std::int32_t now) {
    if (instance_[id] != kNever) die(id);
    instance_[id] = last_use_[id] = now;
    made_[id] = ++num_made_;
  }

  void make_view(TensorId id, std::int32_t now) {
    const TensorId storage = graph_.storage(id);
    if (is_live(id) || instance_[storage] == kNever) {
      throw std::logic_error(
          fmt::format("{} runs while its view {} is live, or without its storage",
                      graph_.op(runs_.back()).name, graph_.tensor(id).name));
    }
    instance_[id] = instance_[storage];
    last_use_[storage] = now;
  }

  void die(TensorId id) { deaths_.push_back({last_use_[id], made_[id], id}); }

  std::vector<Action> actions() {
    std::ranges::sort(deaths_);
    std::vector<Action> actions;
    actions.reserve(runs_.size() + deaths_.size());
    auto death = deaths_.begin();
    for (std::int32_t now = 0; now < static_cast<std::int32_t>(runs_.size()); ++now) {
      actions.push_back({Verb::run, runs_[now], {}});
      for (; death != deaths_.end() && death->last_use == now; ++death) {
        actions.push_back({Verb::free, death->storage, {}});
      }
    }
    return actions;
  }

  const Graph& graph_;
  std::vector<std::int32_t> instance_;  // per tensor
  std::vector<std::int32_t> last_use_;  // per storage: position in runs_
  std::vector<std::int32_t> made_;      // per storage: the number of its latest instance
  std::int32_t num_made_ = 0;
  std::vector<bool> ran_;  // per op
  std::vector<OpId> runs_;
  std::vector<Death> deaths_;
  std::vector<OpId> pending_;
};

Plan priced(const Graph& graph, Plan plan) {
  const Replay replayed = replay(graph, plan);
  plan.cost = replayed.cost;
  plan.peak_bytes = replayed.peak_bytes;
  return plan;
}

}  // namespace

Plan lower(const Graph& graph, std::span<const OpId> executions) {
  Binder binder(graph);
  for (OpId id : executions) binder.execute(id);
  Plan plan;
  plan.graph = graph.name();
  plan.actions = binder.finish();
  return priced(graph, std::move(plan));
}

std::vector<OpId> executions_of(const Plan& plan) {
  std::vector<OpId> ops;
  for (const Action& action : plan.actions) {
    if (action.verb == Verb::run) ops.push_back(action.index);
  }
  return ops;
}

Plan keep_all(const Graph& graph) {
  std::vector<OpId> order(graph.num_ops());
  std::iota(order.begin(), order.end(), 0);
  Plan plan = lower(graph, order);
  plan.strategy = "keep-all";
  return plan;
}

}  // namespace lowtide
