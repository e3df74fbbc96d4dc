#include "strategy/search/relief.h"

#include <algorithm>
#include <limits>

#include "strategy/search/anneal.h"

namespace lowtide {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Drops up to so much dearer than the best are made in one round.
constexpr double kAsGood = 1.2;

}  // namespace

Relief::Relief(const StageGraph& graph, Bytes limit)
    : graph_(graph), plan_(graph, limit), moves_(graph, plan_), choices_(movable_values(graph)),
      over_(graph.num_stages() + 1) {}

std::optional<std::vector<Event>> Relief::run(const std::vector<Event>& start, double most_cost,
                                              const Control& control) {
  change_to(plan_, start);
  ratio_ = typical_price(graph_);
  most_cost_ = most_cost;
  while (!plan_.fits()) {
    if (!round(control)) return std::nullopt;
  }
  moves_.trim();
  return plan_.events();
}

/// Whether anything was dropped.
bool Relief::round(const Control& control) {
  count_over();
  const int fullest = fullest_stage();
  std::vector<Drop> drops = drops_over(fullest);
  rate(drops, control);
  if (drops.empty() || drops.front().ratio == kNever) {  // it is full of what is made there
    drops = drops_over(std::min(fullest + 1, graph_.end()));
    rate(drops, control);
  }
  if (control.should_stop() || drops.empty() || drops.front().ratio == kNever) return false;
  const double best = drops.front().ratio;
  if (best > 0) ratio_ = best;  // a drop that makes other reruns useless may cost less than nothing
  const double most = kAsGood * ratio_;
  bool any = false;
  for (const Drop& drop : drops) {
    if (drop.ratio > most || plan_.fits()) break;
    if (try_drop(drop, most) == kNever) continue;
    moves_.keep();
    any = true;
  }
  return any && plan_.cost() <= most_cost_;
}

void Relief::count_over() {
  const Timeline& memory = plan_.memory();
  for (int t = 0; t < graph_.num_stages(); ++t) {
    over_[t + 1] = over_[t] + (memory.at(t) > memory.limit());
  }
}

int Relief::fullest_stage() const {
  const Timeline& memory = plan_.memory();
  int fullest = 0;
  for (int t = 1; t < graph_.num_stages(); ++t) {
    if (memory.at(t) > memory.at(fullest)) fullest = t;
  }
  return fullest;
}

/// Of what is held over the stage without being used there.
std::vector<Relief::Drop> Relief::drops_over(int stage) const {
  std::vector<Drop> drops;
  const auto add_use = [&](Drop& drop, int value) {
    const int use = next_use_behind(graph_, plan_, value, stage);
    const int op = graph_.value(value).producer;
    if (use == kNone || !graph_.may_rerun(op, use)) return;
    drop.events.push_back({use, op});
    drop.bytes += static_cast<double>(graph_.value(value).bytes);
  };
  const auto offer = [&](Drop drop, std::size_t least) {
    if (drop.events.size() < least) return;
    std::ranges::sort(drop.events);
    drops.push_back(drop);
    drop.all = true;
    drops.push_back(std::move(drop));
  };
  for (int v : choices_) {
    Drop one, together;
    add_use(one, v);
    for (int reader : graph_.value(v).readers) {
      for (int made : graph_.stage(reader).outputs) add_use(together, made);
    }
    offer(std::move(one), 1);
    offer(std::move(together), 2);
  }
  return drops;
}

/// Best first.
void Relief::rate(std::vector<Drop>& drops, const Control& control) {
  double best = kNever;
  for (Drop& drop : drops) {
    drop.ratio = control.should_stop() ? kNever : try_drop(drop, kAsGood * std::max(best, 0.0));
    best = std::min(best, drop.ratio);
    moves_.undo();
    control.count(plan_.take_work());
  }
  std::ranges::stable_sort(drops, {}, &Drop::ratio);
}

/// The ratio of the drop, which is then made; or kNever, with the plan as it was, when it is above
/// the given one or saves nothing. What is not there is made again where that is worth it.
double Relief::try_drop(const Drop& drop, double most_ratio) {
  const double cost = plan_.cost();
  const auto excess = static_cast<double>(plan_.memory().excess());
  const double most_saved = std::min(drop.bytes * over_.back(), excess);
  const double most_cost = std::min(most_cost_, cost + most_ratio * most_saved);
  const auto held = [&](Event run, int input) {
    const int from = plan_.runs(graph_.value(input).producer)[plan_.instance_at(input, run.stage)];
    return ratio_ * static_cast<double>(graph_.value(input).bytes) *
           (over_[run.stage] - over_[from]);
  };
  for (Event event : drop.events) {
    if (drop.all) {
      moves_.drop(event, most_cost, [](Event, int) { return true; });
    } else {
      moves_.drop_if_worth(event, kNever, held);
    }
    if (plan_.cost() > most_cost) break;
  }
  const double saved = excess - static_cast<double>(plan_.memory().excess());
  const double ratio = (plan_.cost() - cost) / saved;
  if (moves_.any() && saved > 0 && plan_.cost() <= most_cost && ratio <= most_ratio) return ratio;
  moves_.undo();
  return kNever;
}

}  // namespace lowtide
