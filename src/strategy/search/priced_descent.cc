#include "strategy/search/priced_descent.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lowtide::strategy::search {
namespace {

constexpr int kDescentRounds = 8;

}  // namespace

PricedDescent::PricedDescent(const remat::StageGraph& graph, remat::Prices prices)
    : graph_(graph), prices_(std::move(prices)), plan_(graph, prices_), moves_(graph, plan_) {}

std::vector<remat::Event> PricedDescent::run(const std::vector<remat::Event>& start,
                                             const Control& control) {
  while (!plan_.events().empty()) plan_.remove(plan_.events().back());
  for (remat::Event event : start) plan_.add(event);
  for (int i = 0; i < kDescentRounds && round(control); ++i) continue;
  return plan_.events();
}

/// Returns whether anything got better.
bool PricedDescent::round(const Control& control) {
  improved_ = false;
  for (int v = 0; v < graph_.num_values() && !control.should_stop(); ++v) {
    for (int reader : graph_.value(v).readers) {
      const std::vector<int> stages = plan_.runs(reader);
      for (int stage : stages) try_drop(v, stage);
    }
    control.count(plan_.take_work());
  }
  for (int v = 0; v < graph_.num_values() && !control.should_stop(); ++v) {
    try_drop_readers(v);
    control.count(plan_.take_work());
  }
  const std::vector<remat::Event> events = plan_.events();
  for (std::size_t i = 0; i < events.size() && !control.should_stop(); ++i) {
    try_hold(events[i]);
    control.count(plan_.take_work());
  }
  return improved_;
}

/// Gives readers of the value in that stage their own run of its op. Inputs of that run are made
/// again where that pays, or all missing ones, or none: the first variant that pays is kept.
void PricedDescent::try_drop(int v, int stage) {
  const remat::Event event{stage, graph_.value(v).producer};
  if (plan_.contains(event) || !graph_.may_rerun(event.op, stage)) return;
  double saved = 0;  // upper bound
  for (int out : graph_.stage(event.op).outputs) {
    saved += prices_.over(event.op, stage) * static_cast<double>(graph_.value(out).bytes);
  }
  if (saved <= graph_.stage(event.op).cost) return;
  for (double patience : {1.0, 0.0, std::numeric_limits<double>::infinity()}) {
    try_drop(std::span(&event, 1), saved, patience);
    if (plan_.contains(event)) return;
  }
}

/// Makes inputs again whose price of being held exceeds `patience` times the cost of making them.
void PricedDescent::try_drop(std::span<const remat::Event> events, double saved, double patience) {
  const double before = rating();
  const double most_cost = plan_.cost() + saved;
  for (remat::Event event : events) {
    moves_.drop(event, most_cost, [&](remat::Event run, int input) {
      const int producer = graph_.value(input).producer;
      const int from = plan_.runs(producer)[plan_.instance_at(input, run.stage)];
      const double held =
          prices_.over(from, run.stage) * static_cast<double>(graph_.value(input).bytes);
      return held > patience * graph_.stage(producer).cost;
    });
  }
  keep_if_better(before);
}

/// Drops outputs of several readers of the value together: making the value again may cost more
/// than each of them saves.
void PricedDescent::try_drop_readers(int v) {
  std::vector<Gap> gaps;
  for (int reader : graph_.value(v).readers) {
    const Gap gap = costliest_gap(reader);
    if (gap.held > 0) gaps.push_back(gap);
  }
  std::ranges::sort(gaps, {}, &Gap::event);
  for (std::size_t length = gaps.size(); length > 1; length = (length + 1) / 2) {
    for (std::size_t begin = 0; begin < gaps.size(); begin += length) {
      std::vector<remat::Event> events;
      double saved = 0;
      double cost = 0;
      for (std::size_t i = begin; i < std::min(begin + length, gaps.size()); ++i) {
        if (plan_.contains(gaps[i].event)) continue;
        events.push_back(gaps[i].event);
        saved += gaps[i].held;
        cost += graph_.stage(gaps[i].event.op).cost;
      }
      if (events.size() < 2 || saved <= cost) continue;
      for (double patience : {1.0, 0.0}) {
        try_drop(events, saved, patience);
        if (plan_.contains(events.front())) break;
      }
    }
  }
}

/// The most expensive time between two uses of an output of the op.
PricedDescent::Gap PricedDescent::costliest_gap(int op) const {
  Gap costliest;
  for (int v : graph_.stage(op).outputs) {
    std::vector<int> uses = plan_.runs(op);
    for (int reader : graph_.value(v).readers) {
      uses.insert(uses.end(), plan_.runs(reader).begin(), plan_.runs(reader).end());
    }
    std::ranges::sort(uses);
    for (std::size_t i = 1; i < uses.size(); ++i) {
      const remat::Event event{uses[i], op};
      if (plan_.contains(event) || !graph_.may_rerun(op, event.stage)) continue;
      const double held =
          prices_.over(uses[i - 1] + 1, event.stage) * static_cast<double>(graph_.value(v).bytes);
      if (held > costliest.held) costliest = {event, held};
    }
  }
  return costliest;
}

void PricedDescent::try_hold(remat::Event event) {
  if (!plan_.contains(event)) return;
  const double before = rating();
  moves_.hold(event);
  if (keep_if_better(before)) return;
  moves_.hold_with_readers(event);
  keep_if_better(before);
}

bool PricedDescent::keep_if_better(double before) {
  constexpr double kRounding = 1e-12;
  const bool is_better = rating() < before * (1 - kRounding);
  if (is_better) {
    moves_.keep();
    improved_ = true;
  } else {
    moves_.undo();
  }
  return is_better;
}

}  // namespace lowtide::strategy::search
