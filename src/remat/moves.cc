#include "remat/moves.h"

#include <algorithm>

namespace lowtide::remat {
namespace {

/// Values below this share of the largest are not worth a move of their own.
constexpr double kSmallShare = 1e-3;

}  // namespace

std::vector<int> movable_values(const StageGraph& graph) {
  Bytes largest = 0;
  for (const StageValue& value : graph.values()) largest = std::max(largest, value.bytes);
  std::vector<int> values;
  for (int v = 0; v < graph.num_values(); ++v) {
    const StageValue& value = graph.value(v);
    const bool may_rerun = graph.stage(value.producer).deadline > value.producer;
    const bool matters =
        static_cast<double>(value.bytes) >= kSmallShare * static_cast<double>(largest);
    if (may_rerun && matters && !value.readers.empty()) values.push_back(v);
  }
  return values;
}

int next_use_behind(const StageGraph& graph, const EventPlan& plan, int v, int stage) {
  const StageValue& value = graph.value(v);
  if (value.producer >= stage) return kNone;
  const int k = plan.instance_at(v, stage);
  if (plan.runs(value.producer)[k] >= stage || plan.last_stage(v, k) <= stage) return kNone;
  const int use = plan.next_use(v, k, stage);
  return use == stage ? kNone : use;
}

void Moves::add(Event event) {
  plan_.add(event);
  changes_.push_back({event, true});
}

void Moves::remove(Event event) {
  plan_.remove(event);
  changes_.push_back({event, false});
}

void Moves::hold(Event event) {
  remove(event);
  prune_inputs(event);
}

void Moves::hold_with_readers(Event event) {
  for (int v : graph_.stage(event.op).outputs) {
    for (int reader : graph_.value(v).readers) {
      const std::vector<int> stages = plan_.runs(reader);
      for (int stage : stages) {
        const Event reading{stage, reader};
        if (!plan_.contains(event)) return;  // nothing reads it any more
        const bool reads = plan_.runs(event.op)[plan_.instance_at(v, stage)] == event.stage;
        if (reads && plan_.contains(reading)) hold(reading);
      }
    }
  }
  if (plan_.contains(event)) hold(event);
}

void Moves::hold_if_it_fits(Event event) {
  if (!plan_.contains(event)) return;
  keep();
  hold(event);
  if (!plan_.fits()) undo();
  keep();
}

void Moves::prune(Event event) {
  if (plan_.contains(event) && plan_.is_useless(event)) hold(event);
}

void Moves::prune_all() {
  const std::vector<Event> events = plan_.events();
  for (Event event : events) prune(event);
  keep();
}

void Moves::trim() {
  prune_all();
  std::vector<Event> events = plan_.events();
  std::ranges::sort(events);
  std::ranges::stable_sort(events, std::ranges::greater(),
                           [&](Event event) { return graph_.stage(event.op).cost; });
  for (Event event : events) hold_if_it_fits(event);
}

void Moves::prune_inputs(Event event) {
  for (int v : graph_.stage(event.op).inputs) {
    const int producer = graph_.value(v).producer;
    const int stage = plan_.runs(producer)[plan_.instance_at(v, event.stage)];
    if (stage != producer) prune({stage, producer});
  }
}

void Moves::prune_run_before(Event event) {
  const std::vector<int>& runs = plan_.runs(event.op);
  const int previous = *(std::ranges::lower_bound(runs, event.stage) - 1);
  if (previous != event.op) prune({previous, event.op});
}

/// Takes back all changes but the first `count`.
void Moves::undo_to(std::size_t count) {
  while (changes_.size() > count) {
    const Change change = changes_.back();
    changes_.pop_back();
    if (change.added) {
      plan_.remove(change.event);
    } else {
      plan_.add(change.event);
    }
  }
}

}  // namespace lowtide::remat
