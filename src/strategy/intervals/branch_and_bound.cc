#include "strategy/intervals/branch_and_bound.h"

#include <algorithm>
#include <utility>

namespace lowtide::strategy::intervals {
namespace {

/// Of looking for a conflict: for each value, and for each stage.
constexpr double kPerValue = 20;
constexpr double kPerStage = 2;
/// Of what is made for a run, for each stage.
constexpr double kPerStageOfRun = 20;

}  // namespace

Starts all_starts(const remat::StageGraph& graph) {
  Starts starts(graph.num_stages());
  for (int i = 0; i < graph.end(); ++i) {
    for (int t = i + 1; t <= graph.stage(i).deadline; ++t) starts[i].push_back(t);
  }
  return starts;
}

Branched BranchAndBound::run(remat::EventPlan& plan, const Starts& starts, const Effort& effort,
                             const Control& control) {
  plan_ = &plan;
  starts_ = &starts;
  control_ = &control;
  effort_ = effort;
  closed_.assign(starts.size(), {});
  for (std::size_t i = 0; i < starts.size(); ++i) closed_[i].assign(starts[i].size(), false);
  found_ = {};
  found_.cost = effort.cost_below;
  conflicts_ = 0;
  ended_ = false;
  control.count(kPerStageOfRun * static_cast<double>(starts.size()));
  explore();
  found_.complete = !ended_;
  return std::move(found_);
}

bool BranchAndBound::is_too_dear(double cost) const {
  constexpr double kRounding = 1e-12;
  return cost >= found_.cost * (1 - kRounding);
}

void BranchAndBound::remember() {
  found_.events = plan_->events();
  found_.cost = plan_->cost();
  ended_ = effort_.first_only;
}

void BranchAndBound::explore() {
  if (conflicts_ > effort_.conflicts || control_->should_stop()) {
    ended_ = true;
    return;
  }
  if (is_too_dear(plan_->cost())) return;
  if (plan_->fits()) return remember();
  const std::optional<Choice> choice = choose();
  if (choice && !is_too_dear(plan_->cost() + choice->least)) try_each(*choice);
}

/// Tries ops with the most bytes freed per cost first, and late stages first, since a value made
/// late is held for the shortest time.
void BranchAndBound::try_each(const Choice& choice) {
  for (const Way& way : choice.ways) {
    const int op = way.out.op;
    for (auto start = way.open.rbegin(); start != way.open.rend() && !ended_; ++start) {
      const remat::Event event{(*starts_)[op][*start], op};
      plan_->add(event);
      explore();
      plan_->remove(event);
      closed_[op][*start] = true;
    }
  }
  for (const Way& way : choice.ways) {
    for (int start : way.open) closed_[way.out.op][start] = false;
  }
}

/// The conflict that is most expensive to resolve; of equal ones, the one with the fewest starts.
/// Nothing when one cannot be resolved.
std::optional<BranchAndBound::Choice> BranchAndBound::choose() {
  const remat::Timeline& memory = plan_->memory();
  control_->count(plan_->take_work() + kPerStage * graph_.num_stages());
  std::optional<Choice> best;
  int worst = memory.over_after(0);
  for (int stage = 0; stage < graph_.num_stages(); ++stage) {
    if (memory.at(stage) <= memory.limit()) continue;
    if (memory.at(stage) > memory.at(worst)) worst = stage;
    if (!effort_.thorough) continue;
    std::optional<Choice> choice = choice_in(stage);
    if (!choice) return std::nullopt;
    const bool better = !best || choice->least > best->least ||
                        (choice->least == best->least && choice->starts < best->starts);
    if (better) best = std::move(choice);
  }
  return effort_.thorough ? best : choice_in(worst);
}

std::optional<BranchAndBound::Choice> BranchAndBound::choice_in(int stage) {
  ++conflicts_;
  control_->count(kPerValue * graph_.num_values());
  const Conflict conflict = conflict_in(graph_, *plan_, stage);
  Choice choice{open_ways(conflict)};
  Bytes most = 0;
  for (const Way& way : choice.ways) most += way.out.bytes;
  if (most < conflict.missing) return std::nullopt;
  choice.least = least_cost(choice.ways, conflict.missing);
  leave_out(choice.ways, conflict.missing);
  for (const Way& way : choice.ways) choice.starts += way.open.size();
  return choice;
}

std::vector<BranchAndBound::Way> BranchAndBound::open_ways(const Conflict& conflict) {
  std::vector<Way> ways;
  for (const WayOut& out : conflict.ways) {
    const std::vector<int>& starts = (*starts_)[out.op];
    const auto first = std::ranges::lower_bound(starts, out.first) - starts.begin();
    Way way{out, {}};
    for (auto i = static_cast<int>(first);
         i < static_cast<int>(starts.size()) && starts[i] <= out.last; ++i) {
      if (!closed_[out.op][i] && !plan_->contains({starts[i], out.op})) way.open.push_back(i);
    }
    if (way.open.empty()) continue;
    if (static_cast<int>(plan_->runs(out.op).size()) >= most_intervals_) {
      found_.capped = true;
    } else {
      ways.push_back(std::move(way));
    }
  }
  return ways;
}

/// Sorts the ways by cost per byte.
double BranchAndBound::least_cost(std::vector<Way>& ways, Bytes missing) const {
  const auto cost_per_byte = [&](const Way& way) {
    return graph_.stage(way.out.op).cost / static_cast<double>(way.out.bytes);
  };
  std::ranges::stable_sort(ways, {}, cost_per_byte);
  double cost = 0;
  for (const Way& way : ways) {
    if (missing <= 0) break;
    cost += cost_per_byte(way) * static_cast<double>(std::min(missing, way.out.bytes));
    missing -= way.out.bytes;
  }
  return cost;
}

/// Leaves out the ways with the most starts, as long as they are too few alone.
void BranchAndBound::leave_out(std::vector<Way>& ways, Bytes missing) const {
  std::vector<Way> sorted = ways;
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           [](const Way& way) { return way.open.size(); });
  Bytes freed = 0;
  std::vector<int> left_out;
  for (const Way& way : sorted) {
    if (freed + way.out.bytes >= missing) continue;
    freed += way.out.bytes;
    left_out.push_back(way.out.op);
  }
  std::erase_if(ways, [&](const Way& way) {
    return std::ranges::find(left_out, way.out.op) != left_out.end();
  });
}

}  // namespace lowtide::strategy::intervals
