#include "plan/residents.h"

#include <fmt/format.h>

#include "base/error.h"

namespace lowtide {

std::vector<bool> residents_away(const Graph& graph, const Plan& plan) {
  std::vector<bool> away(graph.tensors().size());
  if (!plan.slower) return away;
  for (TensorId id : plan.slower->residents) {
    const bool is_resident =
        id >= 0 && id < graph.num_tensors() && graph.tensor(id).kind == Kind::resident && !away[id];
    if (!is_resident) {
      throw InputError(fmt::format(
          "the plan lists tensor {} among the residents that move, and it is no resident of graph "
          "\"{}\" or is listed twice. Verify the plan first.",
          id, graph.name()));
    }
    away[id] = true;
  }
  return away;
}

Bytes staying_bytes(const Graph& graph, const Plan& plan) {
  const std::vector<bool> away = residents_away(graph, plan);
  Bytes bytes = graph.resident_bytes();
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (away[id]) bytes -= graph.tensor(id).bytes;
  }
  return bytes;
}

}  // namespace lowtide
