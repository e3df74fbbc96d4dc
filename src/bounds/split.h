#pragma once

#include <optional>
#include <vector>

#include "base/control.h"
#include "certify/certificate.h"
#include "remat/prices.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// Chooses a value that divides all plans into few cases, by the last first run at which it is
/// absent (docs/explanation/certificates.md). A bound takes the inputs of a rerun for granted. So
/// of the values that are made again because memory has a price while they are held, this is the
/// one whose op reads the most bytes. Nothing where there is none.
std::optional<int> value_to_split(const remat::StageGraph& graph, const remat::Prices& prices);

/// The cases. kNone: plans that hold the value from the first run of its op to its last reader.
/// Others: stages in between that do not read it and after which it may be made again.
std::vector<int> absences(const remat::StageGraph& graph, int value);

/// The stages of the plans of a case: see certify/split.h. The rerun is a stage without an op.
remat::StageGraph stages_of_case(const remat::StageGraph& graph, int value, int absent);

/// A bound by cases.
struct SplitBound {
  double value;
  certify::Certificate::Split proof;
};
/// Splits by a value chosen at these prices, from which all cases start; `work` for each size of
/// their clusters. Nothing when there is no value to choose, `control` ends it, or a case is hardly
/// above `known`.
std::optional<SplitBound> split_bound(const Graph& graph, const remat::StageGraph& stages,
                                      Bytes budget, const remat::Prices& prices, double known,
                                      double work, const Control& control);

}  // namespace lowtide::bounds
