#include "strategy/checkmate/rounding.h"

#include <algorithm>

namespace lowtide::strategy::checkmate {

/// Walks back, so that the inputs of a rerun are known before the stages that can hold them.
std::vector<remat::Event> rounded(const remat::StageGraph& stages, const Held& held,
                                  double threshold) {
  std::vector<remat::Event> events;
  std::vector<bool> needed(stages.num_values());  // at the end of stage t, then held before it
  for (int t = stages.end(); t >= 0; --t) {
    const auto makes = [&](int i) {
      return i == t ||
             (stages.may_rerun(i, t) && std::ranges::any_of(stages.stage(i).outputs, [&](int v) {
                return needed[v] && held(t, v) < threshold;
              }));
    };
    for (int i = t; i >= 0; --i) {
      if (!makes(i)) continue;
      if (i != t) events.push_back({t, i});
      for (int v : stages.stage(i).outputs) needed[v] = false;
      for (int v : stages.stage(i).inputs) needed[v] = true;
    }
  }
  return events;
}

}  // namespace lowtide::strategy::checkmate
