#include "ordering/known_order.h"

namespace lowtide::ordering {

const LeastPeak& KnownOrder::least(const Graph& graph, const remat::StageGraph& stages,
                                   const PeakEffort& effort, const Control& control) {
  if (!says_enough(effort.wanted)) {
    found_ = least_peak(stages, Precedence(graph, stages), effort, control);
    wanted_ = effort.wanted;
  }
  return *found_;
}

bool KnownOrder::says_enough(std::optional<Bytes> wanted) const {
  if (!found_) return false;
  if (!wanted_ || !wanted) return !wanted_;
  return found_->peak <= *wanted || (*wanted <= *wanted_ && *wanted_ < found_->peak);
}

}  // namespace lowtide::ordering
