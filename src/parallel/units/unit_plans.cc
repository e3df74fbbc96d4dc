#include "parallel/units/unit_plans.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/control.h"
#include "base/error.h"
#include "parallel/units/unit_draft.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "strategy/checkpointing.h"

namespace lowtide::parallel {
namespace {

constexpr double kSecond = 1e6;  // in microseconds

/// A set of values to keep: bit i stands for the i-th choice.
struct KeptSet {
  std::uint32_t choices = 0;
  Bytes held = 0;
  double rerun_cost = 0;
};

/// Counts what a set of kept values holds and costs, without lowering a plan.
class KeptSets {
 public:
  explicit KeptSets(const remat::StageGraph& stages)
      : stages_(stages),
        end_(strategy::forward_end(stages)),
        kept_(strategy::kept_in_any_case(stages, end_,
                                         std::vector<bool>(to_size(stages.num_values())))) {
    choose();
    find_wanted();
  }

  int num_choices() const { return num_choices_; }

  /// Walks back through the forward pass: a value that is wanted and not kept has its op run
  /// again, which wants the op's inputs.
  KeptSet counted(std::uint32_t choices) {
    std::vector<char>& wanted = wanted_now_;
    wanted = wanted_;
    KeptSet set{.choices = choices};
    for (int i = end_ - 1; i >= 0; --i) {
      bool again = false;
      for (int v : stages_.stage(i).outputs) {
        if (!wanted[to_size(v)]) continue;
        if (kept_[to_size(v)] || (choices & choice_[to_size(v)]) != 0) {
          set.held += stages_.value(v).bytes;
        } else {
          again = true;
        }
      }
      if (!again) continue;
      set.rerun_cost += stages_.stage(i).cost;
      for (int v : stages_.stage(i).inputs) wanted[to_size(v)] = true;
    }
    return set;
  }

  std::vector<OpId> order(std::uint32_t choices) const {
    std::vector<bool> kept = kept_;
    for (int v = 0; v < stages_.num_values(); ++v) {
      if ((choices & choice_[to_size(v)]) != 0) kept[to_size(v)] = true;
    }
    return strategy::checkpointed_order(stages_, end_,
                                        {std::move(kept), strategy::lone_groups(stages_)});
  }

 private:
  static std::size_t to_size(int index) { return static_cast<std::size_t>(index); }

  void choose() {
    std::vector<int> choices;  // values
    for (int v = 0; v < stages_.num_values(); ++v) {
      const bool forward = stages_.value(v).producer < end_;
      if (forward && !kept_[to_size(v)] && stages_.value(v).bytes > 0) choices.push_back(v);
    }
    std::ranges::stable_sort(choices, std::greater<>(),
                             [&](int v) { return stages_.value(v).bytes; });
    choice_.resize(to_size(stages_.num_values()));
    for (int v : choices) {
      if (num_choices_ == kMostChoices) {
        kept_[to_size(v)] = true;
      } else {
        choice_[to_size(v)] = 1U << num_choices_++;
      }
    }
  }

  void find_wanted() {
    wanted_.resize(to_size(stages_.num_values()));
    for (int v = 0; v < stages_.num_values(); ++v) {
      wanted_[to_size(v)] = stages_.value(v).last_reader() >= end_;
    }
  }

  const remat::StageGraph& stages_;
  int end_;
  int num_choices_ = 0;
  std::vector<bool> kept_;             // per value: in any case
  std::vector<std::uint32_t> choice_;  // per value: its bit in KeptSet::choices; 0 for no choice
  std::vector<char> wanted_;           // per value: the backward pass reads it
  std::vector<char> wanted_now_;       // the same, and reruns
};

/// Of these sets those that hold less than any that costs no more.
std::vector<KeptSet> best_sets(std::vector<KeptSet> sets) {
  std::ranges::sort(sets, {}, [](const KeptSet& set) {
    return std::tuple(set.held, set.rerun_cost, set.choices);
  });
  std::vector<KeptSet> best;
  for (const KeptSet& set : sets) {
    if (best.empty() || set.rerun_cost < best.back().rerun_cost) best.push_back(set);
  }
  return best;
}

std::vector<KeptSet> all_sets(KeptSets& sets) {
  std::vector<KeptSet> counted;
  const std::uint32_t end = 1U << sets.num_choices();
  for (std::uint32_t choices = 0; choices < end; ++choices) {
    if (choices % 4096 == 0 && Control::stop_requested()) {
      throw StoppedError("stopped while the plans of a unit were compared.");
    }
    counted.push_back(sets.counted(choices));
    // In parts, so that a million sets are not in memory at a time.
    if (counted.size() >= 8192) counted = best_sets(std::move(counted));
  }
  return best_sets(std::move(counted));
}

/// The first action of the backward pass.
std::size_t first_backward(const Graph& graph, const Plan& plan) {
  const auto found = std::ranges::find_if(plan.actions, [&](const Action& action) {
    return action.verb == Verb::run && graph.op(action.index).phase != Phase::forward;
  });
  return static_cast<std::size_t>(found - plan.actions.begin());
}

/// Adds one run of an op to the times of its pass.
void add_run(UnitPlan& plan, const Graph& graph, OpId id, bool in_backward_pass) {
  const Op& op = graph.op(id);
  const double seconds = op.cost / kSecond;
  (in_backward_pass ? plan.backward_seconds : plan.forward_seconds) += seconds;
  if (is_collective(op)) plan.communication_seconds += seconds;
  if (!in_backward_pass || op.phase != Phase::forward) return;
  plan.rerun_seconds += seconds;
  if (!graph.is_view_op(id)) plan.reruns.push_back(op.name);
}

UnitPlan measured(const Graph& graph, std::vector<OpId> executions) {
  const Plan plan = with_in_place(graph, lower(graph, executions));
  const Replay replayed = replay(graph, plan);
  const std::size_t backward = first_backward(graph, plan);
  const Bytes residents = graph.resident_bytes();
  UnitPlan result;
  result.executions = std::move(executions);
  result.held_bytes = backward == 0 ? 0 : replayed.memory[backward - 1] - residents;
  result.working_bytes = std::max<Bytes>(0, replayed.peak_bytes - residents - result.held_bytes);
  for (std::size_t a = 0; a < plan.actions.size(); ++a) {
    const Action& action = plan.actions[a];
    if (action.verb == Verb::run) add_run(result, graph, action.index, a >= backward);
  }
  return result;
}

bool is_no_better(const UnitPlan& plan, const UnitPlan& than) {
  return plan.held_bytes >= than.held_bytes && plan.working_bytes >= than.working_bytes &&
         plan.backward_seconds >= than.backward_seconds;
}

}  // namespace

std::vector<UnitPlan> unit_plans(const Graph& graph) {
  const remat::StageGraph stages(graph);
  KeptSets sets(stages);
  std::vector<UnitPlan> plans;
  for (const KeptSet& set : all_sets(sets)) {
    UnitPlan plan = measured(graph, sets.order(set.choices));
    const auto is_no_better_than = [&](const UnitPlan& other) { return is_no_better(plan, other); };
    if (std::ranges::any_of(plans, is_no_better_than)) continue;
    std::erase_if(plans, [&](const UnitPlan& other) { return is_no_better(other, plan); });
    plans.push_back(std::move(plan));
  }
  std::ranges::stable_sort(plans, {}, &UnitPlan::held_bytes);
  return plans;
}

}  // namespace lowtide::parallel
