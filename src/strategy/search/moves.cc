#include "strategy/search/moves.h"

#include <algorithm>

namespace lowtide {

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

void Moves::prune(Event event) {
  if (plan_.contains(event) && plan_.is_useless(event)) hold(event);
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

void Moves::undo() {
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    if (change->added) {
      plan_.remove(change->event);
    } else {
      plan_.add(change->event);
    }
  }
  changes_.clear();
}

}  // namespace lowtide
