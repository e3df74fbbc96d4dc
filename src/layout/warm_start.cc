#include "layout/warm_start.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "packing/ejection_search.h"

namespace lowtide::layout {
namespace {

/// Nanoseconds for each action of a plan.
constexpr double kPerAction = 500;

bool runs_op(const Graph& graph, const Action& action) {
  return action.verb == Verb::run && !graph.is_view_op(action.index);
}

/// Identifies a life in any plan.
constexpr auto key_of = [](const auto& life) {
  return std::tuple(life.begin, life.what.workspace, life.what.index);
};

bool same(const Placement& a, const Placement& b) {
  return a.workspace == b.workspace && a.index == b.index;
}

}  // namespace

WarmStart::WarmStart(const Graph& graph, const Plan& known)
    : graph_(&graph), borders_(known.layout->borders) {
  const PlanBuffers needed = buffers_of(graph, known);
  known_ = lives_of(known, needed);
  for (Life& life : known_) {
    const auto& begun = known.layout->placements[needed.buffers[life.buffer].begin];
    life.what = *std::ranges::find_if(begun, [&](const auto& p) { return same(p, life.what); });
  }
}

Repair WarmStart::layout_of(const Plan& plan, const packing::PackingGoal& goal,
                            const Control& control) const {
  control.count(kPerAction * static_cast<double>(plan.actions.size()));
  const SectionedBuffers needed(*graph_, plan, goal.alignment, border_within(plan, goal));
  return repaired(needed, kept_offsets(plan, needed.plan_buffers()), goal, control);
}

/// The end of the outputs' section in the known layout; the highest end if it has none.
Bytes WarmStart::border_within(const Plan& plan, const packing::PackingGoal& goal) const {
  if (bytes_after(*graph_, plan) == 0) return 0;
  const bool has_border =
      !borders_.empty() && borders_.back() > end_of_results(*graph_, goal.alignment);
  if (has_border) return borders_.back();
  return SectionedBuffers(*graph_, plan, goal.alignment).highest_border(*goal.capacity);
}

/// The moment of each action: that of the last run up to it. Empty if moments do not
/// ascend.
std::vector<WarmStart::Moment> WarmStart::moments_of(const Plan& plan) const {
  std::vector<std::int32_t> places(graph_->num_ops(), kNone);
  std::vector<Moment> moments;
  std::int32_t ops = 0;
  Moment now;
  for (const Action& action : plan.actions) {
    if (runs_op(*graph_, action)) {
      std::int32_t& place = places[action.index];
      const bool is_first = place == kNone;
      if (is_first) place = ops;
      const Moment next{ops, place};
      if (next <= now) return {};
      now = next;
      if (is_first) ++ops;
    }
    moments.push_back(now);
  }
  return moments;
}

/// Sorted by key_of.
std::vector<WarmStart::Life> WarmStart::lives_of(const Plan& plan,
                                                 const PlanBuffers& needed) const {
  const std::vector<Moment> moments = moments_of(plan);
  std::vector<Life> lives;
  if (moments.empty()) return lives;
  for (std::size_t i = 0; i < needed.buffers.size(); ++i) {
    const packing::Buffer& buffer = needed.buffers[i];
    if (!runs_op(*graph_, plan.actions[buffer.begin]) || !packing::takes_room(buffer)) continue;
    lives.push_back({moments[buffer.begin], needed.first[i], moments[buffer.end - 1],
                     static_cast<std::int32_t>(i)});
  }
  std::ranges::sort(lives, {}, key_of);
  return lives;
}

/// Per buffer: its offset in the known layout if it lives no longer than there. Moments ascend in
/// both plans, so buffers alive together here were so there, and do not overlap.
std::vector<Bytes> WarmStart::kept_offsets(const Plan& plan, const PlanBuffers& needed) const {
  std::vector<Bytes> offsets(needed.buffers.size(), packing::EjectionSearch::kUnplaced);
  auto known = known_.begin();
  for (const Life& life : lives_of(plan, needed)) {
    while (known != known_.end() && key_of(*known) < key_of(life)) ++known;
    if (known == known_.end()) break;
    if (key_of(*known) == key_of(life) && life.last <= known->last) {
      offsets[life.buffer] = known->what.offset;
    }
  }
  return offsets;
}

}  // namespace lowtide::layout
