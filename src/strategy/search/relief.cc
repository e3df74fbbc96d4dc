#include "strategy/search/relief.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "strategy/search/annealer.h"

namespace lowtide::strategy::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// One round makes all drops that cost at most this factor more than the best.
constexpr double kAsGood = 1.2;

}  // namespace

Relief::Relief(const remat::StageGraph& graph, Bytes limit)
    : graph_(graph),
      plan_(graph, limit),
      moves_(graph, plan_),
      choices_(remat::movable_values(graph)),
      over_(graph.num_stages() + 1),
      rated_(4 * graph.num_values()),
      changed_(graph.num_stages()) {}

std::optional<std::vector<remat::Event>> Relief::run(const std::vector<remat::Event>& start,
                                                     double most_cost, const Control& control,
                                                     int patience) {
  remat::change_to(plan_, start);
  ratio_ = typical_price(graph_);
  most_cost_ = most_cost;
  patience_ = patience;
  std::ranges::fill(rated_, Rated());
  while (!plan_.fits()) {
    if (!round(control)) return std::nullopt;
  }
  moves_.trim();
  control.count(plan_.take_work());
  return plan_.events();
}

/// Returns whether anything was dropped. Tries the fullest stage; if all values there are its own,
/// others.
bool Relief::round(const Control& control) {
  constexpr int kPlaces = 16;
  count_over();
  const int fullest = fullest_stage();
  bool any = drop_best(drops_over(fullest, control), control) ||
             drop_best(drops_over(std::min(fullest + 1, graph_.end()), control), control);
  for (int i = 0; i < kPlaces && !any && !control.should_stop(); ++i) {
    const int from = static_cast<int>(std::int64_t{graph_.num_stages()} * i / kPlaces);
    any = drop_best(drops_over(plan_.memory().over_after(from), control), control);
  }
  return any && plan_.cost() <= most_cost_;
}

/// Makes the best of the drops, and others about as good; returns whether there is one. Tries the
/// most promising first. Earlier drops leave fewer bytes above the limit to save, so an old ratio
/// is a lower bound on the current one.
bool Relief::drop_best(std::vector<Drop> drops, const Control& control) {
  std::ranges::stable_sort(drops, {}, &Drop::ratio);
  Drop* best = nullptr;
  int in_vain = 0;
  for (Drop& drop : drops) {
    if ((best != nullptr && in_vain >= patience_) || control.should_stop()) break;
    if (drop.ratio == kNever || (best != nullptr && drop.ratio >= best->ratio)) break;
    drop.ratio = try_drop(drop, best != nullptr ? best->ratio : kNever);
    const bool is_made = moves_.any();
    moves_.undo();
    remember(drop);
    control.count(plan_.take_work());
    in_vain = is_made ? 0 : in_vain + 1;
    if (is_made) best = &drop;
  }
  if (best == nullptr) return false;
  take(*best, kNever);
  if (best->ratio > 0) ratio_ = best->ratio;  // it may cost less if other reruns become useless
  in_vain = 0;
  for (Drop& drop : drops) {
    if (in_vain == patience_ || plan_.fits() || control.should_stop()) break;
    if (&drop == best || drop.ratio > kAsGood * ratio_) continue;
    in_vain = take(drop, kAsGood * ratio_) ? 0 : in_vain + 1;
    control.count(plan_.take_work());
  }
  return true;
}

/// Returns whether the drop was made.
bool Relief::take(Drop& drop, double most_ratio) {
  drop.ratio = try_drop(drop, most_ratio);
  if (!moves_.any()) {
    remember(drop);
    return false;
  }
  ++time_;
  moves_.keep();
  for (remat::Event event : drop.events) changed_[event.stage] = time_;
  return true;
}

void Relief::count_over() {
  const remat::Timeline& memory = plan_.memory();
  for (int t = 0; t < graph_.num_stages(); ++t) {
    over_[t + 1] = over_[t] + (memory.at(t) > memory.limit());
  }
}

int Relief::fullest_stage() const {
  const remat::Timeline& memory = plan_.memory();
  int fullest = 0;
  for (int t = 1; t < graph_.num_stages(); ++t) {
    if (memory.at(t) > memory.at(fullest)) fullest = t;
  }
  return fullest;
}

/// Drops of values that are held over the stage without being used there; some of them when
/// `control` says stop, as values may have many readers that make many others.
std::vector<Relief::Drop> Relief::drops_over(int stage, const Control& control) const {
  constexpr int kBetweenLooks = 32;
  std::vector<Drop> drops;
  const auto add_use = [&](Drop& drop, int value) {
    const int use = remat::next_use_behind(graph_, plan_, value, stage);
    const int op = graph_.value(value).producer;
    if (use == kNone || !graph_.may_rerun(op, use)) return;
    drop.events.push_back({use, op});
    drop.bytes += static_cast<double>(graph_.value(value).bytes);
  };
  const auto offer = [&](Drop drop, std::size_t least, int index) {
    if (drop.events.size() < least) return;
    std::ranges::sort(drop.events);
    for (bool all : {false, true}) {
      drop.all = all;
      drop.index = index + all;
      drop.ratio = least_ratio(drop);
      drops.push_back(drop);
    }
  };
  for (int i = 0; i < static_cast<int>(choices_.size()); ++i) {
    if (i % kBetweenLooks == 0 && control.should_stop()) break;
    const int v = choices_[i];
    Drop one, together;
    add_use(one, v);
    for (int reader : graph_.value(v).readers) {
      for (int made : graph_.stage(reader).outputs) add_use(together, made);
    }
    offer(std::move(one), 1, 4 * v);
    offer(std::move(together), 2, 4 * v + 2);
  }
  return drops;
}

/// Uses the last result, as long as nothing changed where the values are made again.
double Relief::least_ratio(const Drop& drop) const {
  const Rated& rated = rated_[drop.index];
  const auto is_changed = [&](remat::Event event) { return changed_[event.stage] > rated.time; };
  if (rated.stage == drop.events.front().stage && std::ranges::none_of(drop.events, is_changed)) {
    return rated.ratio;
  }
  double cost = 0;
  for (remat::Event event : drop.events) cost += graph_.stage(event.op).cost;
  return cost / most_saved(drop);
}

void Relief::remember(const Drop& drop) {
  rated_[drop.index] = {drop.events.front().stage, time_, drop.ratio};
}

double Relief::most_saved(const Drop& drop) const {
  return std::min(drop.bytes * over_.back(), static_cast<double>(plan_.memory().excess()));
}

/// Returns the ratio of the drop, and makes it. Or leaves the plan as it was: returns kNever when
/// the drop saves nothing, and a lower bound on the ratio when that exceeds `most_ratio`. Missing
/// inputs are made again where that is worth it.
double Relief::try_drop(const Drop& drop, double most_ratio) {
  const double cost = plan_.cost();
  const auto excess = static_cast<double>(plan_.memory().excess());
  const double most_cost = std::min(most_cost_, cost + most_ratio * most_saved(drop));
  const auto held = [&](remat::Event run, int input) {
    const int from = plan_.runs(graph_.value(input).producer)[plan_.instance_at(input, run.stage)];
    return ratio_ * static_cast<double>(graph_.value(input).bytes) *
           (over_[run.stage] - over_[from]);
  };
  for (remat::Event event : drop.events) {
    if (drop.all) {
      moves_.drop(event, most_cost, [](remat::Event, int) { return true; });
    } else {
      moves_.drop_if_worth(event, kNever, held);
    }
    if (plan_.cost() > most_cost) break;
  }
  const double saved = excess - static_cast<double>(plan_.memory().excess());
  const double ratio = (plan_.cost() - cost) / saved;
  const bool costs_too_much = plan_.cost() > most_cost;
  if (moves_.any() && saved > 0 && !costs_too_much && ratio <= most_ratio) return ratio;
  moves_.undo();
  if (costs_too_much && most_cost < most_cost_) return std::max(most_ratio, drop.ratio);
  return !costs_too_much && saved > 0 ? ratio : kNever;
}

}  // namespace lowtide::strategy::search
