#include "strategy/search/priced_descent.h"

#include <limits>
#include <utility>

namespace lowtide {
namespace {

constexpr int kRounds = 8;

}  // namespace

PricedDescent::PricedDescent(const StageGraph& graph, Prices prices)
    : graph_(graph), prices_(std::move(prices)), plan_(graph, prices_), moves_(graph, plan_) {}

std::vector<Event> PricedDescent::run(const std::vector<Event>& start, const Control& control) {
  while (!plan_.events().empty()) plan_.remove(plan_.events().back());
  for (Event event : start) plan_.add(event);
  for (int i = 0; i < kRounds && round(control); ++i) continue;
  return plan_.events();
}

/// Whether anything got better.
bool PricedDescent::round(const Control& control) {
  improved_ = false;
  for (int v = 0; v < graph_.num_values() && !control.should_stop(); ++v) {
    for (int reader : graph_.value(v).readers) {
      const std::vector<int> stages = plan_.runs(reader);
      for (int stage : stages) try_drop(v, stage);
    }
    count_work(control);
  }
  const std::vector<Event> events = plan_.events();
  for (std::size_t i = 0; i < events.size() && !control.should_stop(); ++i) {
    try_hold(events[i]);
    count_work(control);
  }
  return improved_;
}

/// Whoever reads the value in that stage gets a run of its own, with those of its inputs made again
/// too that are worth it, or all that are not there, or none: whichever is the first to pay.
void PricedDescent::try_drop(int v, int stage) {
  const Event event{stage, graph_.value(v).producer};
  if (plan_.contains(event) || !graph_.may_rerun(event.op, stage)) return;
  double saved = 0;  // at most
  for (int out : graph_.stage(event.op).outputs) {
    saved += prices_.over(event.op, stage) * static_cast<double>(graph_.value(out).bytes);
  }
  if (saved <= graph_.stage(event.op).cost) return;
  for (double patience : {1.0, 0.0, std::numeric_limits<double>::infinity()}) {
    try_drop(event, saved, patience);
    if (plan_.contains(event)) return;
  }
}

/// Inputs are made again when holding them takes more than `patience` times what that costs.
void PricedDescent::try_drop(Event event, double saved, double patience) {
  const double before = rating();
  moves_.drop(event, plan_.cost() + saved, [&](Event run, int input) {
    const int producer = graph_.value(input).producer;
    const int from = plan_.runs(producer)[plan_.instance_at(input, run.stage)];
    const double held =
        prices_.over(from, run.stage) * static_cast<double>(graph_.value(input).bytes);
    return held > patience * graph_.stage(producer).cost;
  });
  keep_if_better(before);
}

void PricedDescent::try_hold(Event event) {
  if (!plan_.contains(event)) return;
  const double before = rating();
  moves_.hold(event);
  keep_if_better(before);
}

void PricedDescent::keep_if_better(double before) {
  constexpr double kRounding = 1e-12;
  if (rating() < before * (1 - kRounding)) {
    moves_.keep();
    improved_ = true;
  } else {
    moves_.undo();
  }
}

void PricedDescent::count_work(const Control& control) {
  control.count(plan_.work() - std::exchange(counted_, plan_.work()));
}

}  // namespace lowtide
