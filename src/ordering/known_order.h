#pragma once

#include <optional>

#include "ordering/least_peak.h"

namespace lowtide::ordering {

/// The known results about the order of least peak of one graph. A planner asks its strategy
/// several times, but the search for the order runs once.
class KnownOrder {
 public:
  /// least_peak() of the graph. Reuses an earlier result that is the best order, is good enough, or
  /// missed an equal or larger `wanted`.
  const LeastPeak& least(const Graph& graph, const remat::StageGraph& stages,
                         const PeakEffort& effort, const Control& control);

 private:
  bool says_enough(std::optional<Bytes> wanted) const;

  std::optional<LeastPeak> found_;
  std::optional<Bytes> wanted_;  // the peak that the last search aimed at
};

}  // namespace lowtide::ordering
