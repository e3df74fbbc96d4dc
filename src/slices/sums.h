#pragma once

#include <map>
#include <set>

#include "graph/graph.h"

namespace lowtide::slices {

class Marks;

/// Sums of what slices of several ops add up, such as the gradient of a parameter that is used
/// several times. One tensor is then alive, where there would be one for each op, and another for
/// the part that is added.
struct Sums {
  /// By result of an op whose slices make a part of it: the sum.
  std::map<TensorId, TensorId> of_part;
  /// The ops that make the sums, and those between them and the parts: nothing is left to be done
  /// there.
  std::set<OpId> within;
};

Sums sums_of_parts(const Graph& graph, const Marks& marks);

}  // namespace lowtide::slices
