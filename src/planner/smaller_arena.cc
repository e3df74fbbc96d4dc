#include "planner/smaller_arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "layout/sections.h"
#include "layout/warm_start.h"
#include "planner/plan_events.h"
#include "planner/realize.h"
#include "remat/moves.h"

namespace lowtide::planner {
namespace {

constexpr double kAnyCost = std::numeric_limits<double>::infinity();
/// The work for one layout, for each action.
constexpr std::int64_t kLayoutPatience = 1000;
/// Bytes in use count from such a share of the arena on; the next one's turn comes after so many
/// changes that gained nothing, for each stage.
constexpr double kLevels[] = {0.8, 0.9, 0.7, 0.85};
constexpr int kLevelPatience = 100;
/// One of this many changes removes a rerun.
constexpr int kRemovals = 4;
/// So many changes are made at once at most.
constexpr int kMostChanges = 64;
/// A smaller part of the arena that is not in use at the peak is not worth a change.
constexpr Bytes kLeastWaste = 200;
/// By which parts of the arena it is lowered: at first, and at least.
constexpr Bytes kFirstStep = 500;
constexpr Bytes kLeastStep = 5000;

/// Whether addresses take many more bytes than are in use at once.
bool wastes_much(Bytes needed, const Plan& plan) {
  return needed - plan.peak_bytes > needed / kLeastWaste;
}

class SmallerArena {
 public:
  SmallerArena(const Graph& graph, const PlanEvents& known, PlacedPlan given,
               const Control& control)
      : graph_(graph),
        known_(known),
        stages_(known.stages()),
        control_(control),
        values_(remat::movable_values(stages_)),
        best_(std::move(given)),
        needed_(layout::needed_bytes(graph, best_.plan)),
        step_(std::max<Bytes>(1, needed_ / kFirstStep)),
        warm_(graph, best_.plan),
        events_(stages_, 0),
        moves_(stages_, events_),
        reruns_(known.reruns()) {
    remat::change_to(events_, reruns_);
  }

  PlacedPlan lowered() {
    if (values_.empty()) return std::move(best_);
    const Bytes first = needed_;
    int failed_turns = 0;
    for (std::size_t turn = 0; failed_turns < std::ssize(kLevels) && is_worth_it(); ++turn) {
      level_ = kLevels[turn % std::size(kLevels)];
      const Bytes before = needed_;
      change_above_level();
      failed_turns = needed_ < before ? 0 : failed_turns + 1;
    }
    if (needed_ < first) {
      control_.report(fmt::format("addresses within {} instead of {}", format_bytes(needed_),
                                  format_bytes(first)));
    }
    return std::move(best_);
  }

 private:
  bool is_worth_it() const { return wastes_much(needed_, best_.plan) && !control_.should_stop(); }

  int any(std::size_t count) { return static_cast<int>(random_() % count); }

  /// Until nothing is gained any more.
  void change_above_level() {
    measure();
    const int patience = kLevelPatience * stages_.num_stages();
    for (int failed = 0; failed < patience && is_worth_it(); ++failed) {
      if (!change()) {
        moves_.undo();
        continue;
      }
      moves_.keep();
      measure();
      if (++changes_ >= most_changes_ && keep_if_they_fit()) failed = 0;
    }
    if (changes_ > 0) keep_if_they_fit();
  }

  /// Bytes above this count.
  Bytes level() const {
    const auto above = static_cast<double>(needed_ - graph_.resident_bytes());
    return graph_.resident_bytes() + static_cast<Bytes>(level_ * above);
  }

  void measure() {
    events_.set_limit(level());
    excess_ = events_.memory().excess();
  }

  /// Whether fewer bytes are in use above the level, after any change.
  bool change() {
    const bool removes = any(kRemovals) == 0;
    const bool is_made = removes ? remove() : drop();
    const bool is_less =
        is_made && events_.memory().excess() < excess_ && events_.memory().peak() <= needed_;
    control_.count(events_.take_work());
    return is_less;
  }

  bool remove() {
    if (events_.events().empty()) return false;
    moves_.hold(events_.events()[any(events_.events().size())]);
    return true;
  }

  bool drop() {
    const int stage = any(stages_.num_stages());
    const int v = values_[any(values_.size())];
    const int use = remat::next_use_behind(stages_, events_, v, stage);
    if (use == kNone) return false;
    moves_.drop({use, stages_.value(v).producer}, kAnyCost,
                [&](remat::Event, int) { return any(2) == 0; });
    return moves_.any();
  }

  /// The changes since the best plan; else that is the plan again. More are made at once as long as
  /// they fit, since a layout takes longer than many changes.
  bool keep_if_they_fit() {
    changes_ = 0;
    std::vector<OpId> executions = known_.executions_with(events_.events());
    Plan plan = lower_in_place(graph_, executions, control_);
    if (!lay_out(plan, needed_)) {
      remat::change_to(events_, reruns_);
      measure();
      most_changes_ = std::max(1, most_changes_ / 2);
      return false;
    }
    reruns_ = events_.events();
    most_changes_ = std::min(2 * most_changes_, kMostChanges);
    take({std::move(plan), std::move(executions)});
    step_down();
    return true;
  }

  /// Gives the same plan addresses within fewer bytes, as few as are found.
  void step_down() {
    for (PlacedPlan next = best_; lay_out(next.plan, needed_ - step_); next = best_) {
      take(std::move(next));
      step_ *= 2;
    }
    step_ = std::max({step_ / 2, needed_ / kLeastStep, Bytes{1}});
  }

  bool lay_out(Plan& plan, Bytes within) const {
    const auto work = kLayoutPatience * static_cast<std::int64_t>(plan.actions.size());
    auto layout = warm_.layout_of(plan, packing_goal(graph_, within, work), control_).layout;
    if (!layout) return false;
    plan.layout = std::move(layout);
    return layout::needed_bytes(graph_, plan) <= within;
  }

  void take(PlacedPlan next) {
    best_ = std::move(next);
    needed_ = layout::needed_bytes(graph_, best_.plan);
    warm_ = layout::WarmStart(graph_, best_.plan);
    measure();
  }

  const Graph& graph_;
  const PlanEvents& known_;
  const remat::StageGraph& stages_;
  const Control& control_;
  const std::vector<int> values_;
  PlacedPlan best_;
  Bytes needed_;  // by the best
  Bytes step_;    // by which it is lowered next
  layout::WarmStart warm_;
  remat::EventPlan events_;
  remat::Moves moves_;
  std::vector<remat::Event> reruns_;  // of the best
  double level_ = 0;
  int changes_ = 0;       // since then
  int most_changes_ = 1;  // at once
  Bytes excess_ = 0;      // after them
  std::mt19937_64 random_{1};
};

}  // namespace

PlacedPlan with_smaller_arena(const Graph& graph, PlacedPlan given, const Control& control) {
  if (!wastes_much(layout::needed_bytes(graph, given.plan), given.plan)) return given;
  const auto events = PlanEvents::of(graph, given.executions);
  if (!events) return given;
  return SmallerArena(graph, *events, std::move(given), control).lowered();
}

}  // namespace lowtide::planner
