#include "planner/transfer.h"

#include <algorithm>
#include <utility>

#include "layout/layout.h"
#include "layout/sections.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/verify.h"

namespace lowtide::planner {
namespace {

/// A layout at once, rather than the lowest that can be found in a second.
constexpr std::int64_t kQuickPacking = packing::kPackingWork / 10;

bool same_op(const Op& a, const Op& b) {
  return a.type == b.type && a.inputs == b.inputs && a.outputs == b.outputs &&
         a.recomputable == b.recomputable && a.random == b.random && a.mutates == b.mutates;
}

bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.kind == b.kind && a.alias_of == b.alias_of;
}

bool same_ops_and_tensors(const Graph& a, const Graph& b) {
  return std::ranges::equal(a.ops(), b.ops(), same_op) &&
         std::ranges::equal(a.tensors(), b.tensors(), same_tensor);
}

}  // namespace

bool same_structure(const Graph& a, const Graph& b) {
  return same_ops_and_tensors(a, b) && std::ranges::equal(a.outputs(), b.outputs());
}

std::optional<Plan> transfer(const Graph& graph, const Graph& from, const Plan& plan,
                             Bytes budget) {
  if (!same_ops_and_tensors(graph, from)) return std::nullopt;
  Plan result = with_in_place(graph, lower(graph, executions_of(plan)));
  if (result.peak_bytes > budget) return std::nullopt;
  result.strategy = plan.strategy;
  result.budget_bytes = budget;
  result.layout = layout::assign_addresses(
      graph, result, {.capacity = budget - graph.resident_bytes(), .work = kQuickPacking});
  if (layout::needed_bytes(graph, result) > budget || verify(graph, result)) return std::nullopt;
  return result;
}

}  // namespace lowtide::planner
