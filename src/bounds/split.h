#pragma once

#include <optional>
#include <vector>

#include "base/control.h"
#include "certify/certificate.h"
#include "remat/prices.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// A value by which to divide all plans into few cases, by the last first run at which it is absent
/// (docs/explanation/certificates.md). A bound takes for granted what an op reads when it runs again;
/// so this is the value whose op reads most, of those that are made again because memory has a
/// price while they are held. Nothing where there is none.
std::optional<int> value_to_split(const remat::StageGraph& graph, const remat::Prices& prices);

/// The cases: kNone for the plans that hold the value from the first run of its op to its last
/// reader, and the stages between them that do not read it and behind which it may be made again.
std::vector<int> absences(const remat::StageGraph& graph, int value);

/// The stages of the plans of a case: certify/split.h. The run again has a stage without an op.
remat::StageGraph stages_of_case(const remat::StageGraph& graph, int value, int absent);

/// A bound case by case.
struct SplitBound {
  double value;
  certify::Certificate::Split proof;
};
/// Of a value chosen at these prices, which all cases start from; `work` for each size of their
/// clusters. Nothing when there is no value to choose, `control` ends it, or a case is hardly
/// above `known`.
std::optional<SplitBound> split_bound(const Graph& graph, const remat::StageGraph& stages,
                                      Bytes budget, const remat::Prices& prices, double known,
                                      double work, const Control& control);

}  // namespace lowtide::bounds
