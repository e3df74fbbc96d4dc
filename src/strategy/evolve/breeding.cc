#include "strategy/evolve/breeding.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace lowtide::strategy::evolve {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

bool is_fitter(const Individual& a, const Individual& b) {
  return std::tie(a.excess, a.cost) < std::tie(b.excess, b.cost);
}

Breeding::Breeding(const remat::StageGraph& graph, Bytes limit, std::uint64_t seed,
                   const Control& control)
    : graph_(graph),
      control_(control),
      plan_(graph, limit),
      moves_(graph, plan_),
      choices_(remat::movable_values(graph)),
      random_(seed) {}

bool Breeding::chance(double probability) {
  return static_cast<double>(random_() >> 11) * 0x1p-53 < probability;
}

Individual Breeding::raise(std::vector<remat::Event> events) {
  remat::change_to(plan_, std::move(events));
  moves_.prune_all();
  if (!choices_.empty()) repair();
  if (plan_.fits()) trim();
  Individual child{plan_.events(), plan_.cost(), plan_.memory().excess()};
  std::ranges::sort(child.events);
  return child;
}

Individual Breeding::cross(const Individual& left, const Individual& right) {
  const remat::Event cut{pick(graph_.num_stages()), 0};
  const auto left_end = std::ranges::lower_bound(left.events, cut);
  std::vector<remat::Event> events(left.events.begin(), left_end);
  events.insert(events.end(), std::ranges::lower_bound(right.events, cut), right.events.end());
  return raise(std::move(events));
}

Individual Breeding::mutate(const Individual& parent) {
  constexpr int kStretches = 8;  // the longest is this fraction of the stages
  const int begin = pick(graph_.num_stages());
  const int end = begin + 1 + pick(1 + graph_.num_stages() / kStretches);
  std::vector<remat::Event> events = parent.events;
  std::erase_if(events, [&](remat::Event event) {
    return begin <= event.stage && event.stage < end && chance(0.5);
  });
  return raise(std::move(events));
}

int Breeding::select(const std::vector<Individual>& population) {
  const int size = static_cast<int>(population.size());
  int best = pick(size);
  for (int i = 0; i < 2; ++i) {
    const int other = pick(size);
    if (is_fitter(population[other], population[best])) best = other;
  }
  return best;
}

/// A stage above the limit counts a little more than its bytes, so that one fewer is better.
Bytes Breeding::bytes_over() const {
  return plan_.memory().excess() + plan_.memory().stages_over();
}

void Breeding::repair() {
  constexpr int kPatience = 100;
  int idle = 0;
  while (idle < kPatience && !plan_.fits() && !control_.should_stop()) {
    const Bytes before = bytes_over();
    relieve(plan_.memory().over_after(pick(graph_.num_stages())));
    if (bytes_over() < before) {
      moves_.keep();
      idle = 0;
    } else {
      moves_.undo();
      ++idle;
    }
    control_.count(plan_.take_work());
  }
}

/// Of some values held over the stage, drops the one with the most bytes per cost.
void Breeding::relieve(int stage) {
  constexpr int kTries = 16;
  remat::Event best{kNone, kNone};
  double best_ratio = -1;
  for (int i = 0; i < kTries; ++i) {
    const int v = choices_[pick(static_cast<int>(choices_.size()))];
    const int use = remat::next_use_behind(graph_, plan_, v, stage);
    const int producer = graph_.value(v).producer;
    if (use == kNone || !graph_.may_rerun(producer, use)) continue;
    const double cost = graph_.stage(producer).cost;
    const double ratio = cost > 0 ? static_cast<double>(graph_.value(v).bytes) / cost : kNever;
    if (ratio <= best_ratio) continue;
    best = {use, producer};
    best_ratio = ratio;
  }
  const double deep = chance(0.8) ? 0.9 : 0.3;
  if (best.stage != kNone)
    moves_.drop(best, kNever, [&](remat::Event, int) { return chance(deep); });
}

/// Removes unneeded reruns, in random order.
void Breeding::trim() {
  std::vector<remat::Event> events = plan_.events();
  for (int i = static_cast<int>(events.size()) - 1; i > 0; --i) {
    std::swap(events[i], events[pick(i + 1)]);
  }
  for (remat::Event event : events) {
    if (control_.should_stop()) return;
    moves_.hold_if_it_fits(event);
    control_.count(plan_.take_work());
  }
}

}  // namespace lowtide::strategy::evolve
