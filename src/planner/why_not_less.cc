#include "planner/why_not_less.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "bounds/budget_floor.h"
#include "graph/extent.h"
#include "graph/residents.h"
#include "plan/replay.h"
#include "planner/realize.h"

namespace lowtide::planner {
namespace {

/// Values that an op reads or makes, each storage once.
struct Operands {
  Bytes bytes = 0;
  TensorId largest = kNone;
};

Operands operands(const Graph& graph, const std::vector<TensorId>& tensors) {
  Operands result;
  for (TensorId id : storages_of(graph, tensors)) {
    if (graph.is_resident(id)) continue;
    const Bytes bytes = graph.tensor(id).bytes;
    result.bytes += bytes;
    const bool is_largest = result.largest == kNone || bytes > graph.tensor(result.largest).bytes;
    if (is_largest && bytes > 0) result.largest = id;
  }
  return result;
}

std::string operands_text(const Graph& graph, std::string_view verb,
                          const std::vector<TensorId>& tensors) {
  const auto [bytes, largest] = operands(graph, tensors);
  std::string text = fmt::format("{} {}", verb, format_bytes(bytes));
  if (largest != kNone && bytes != graph.tensor(largest).bytes) {
    text += fmt::format(" (the largest is \"{}\" of {})", graph.tensor(largest).name,
                        format_bytes(graph.tensor(largest).bytes));
  }
  return text;
}

std::string residents_text(const Graph& graph) {
  const std::string kinds = format_kinds(residents_by_kind(graph));
  return kinds.empty() ? "" : fmt::format(" ({})", kinds);
}

std::string reserved_text(Bytes bytes) {
  if (bytes == 0) return "";
  return fmt::format(", states of the random generator and the reserve {}", format_bytes(bytes));
}

std::string op_text(const Graph& graph, const Floor& floor) {
  const Op& op = graph.op(floor.op);
  return fmt::format(", and op {} (\"{}\") alone needs {} more: it {}, {}, works in {}", floor.op,
                     op.name, format_bytes(floor.bytes - graph.resident_bytes()),
                     operands_text(graph, "reads", op.inputs),
                     operands_text(graph, "makes", op.outputs), format_bytes(op.workspace_bytes));
}

/// Bytes of values of an op that grow with the batch: not those that are as large as a parameter,
/// such as its gradient, and no single elements.
Bytes bytes_of_batch(const Graph& graph, const Op& op) {
  std::set<Bytes> of_parameters;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Role::parameter) of_parameters.insert(tensor.bytes);
  }
  constexpr Bytes kLargestElement = 16;
  Bytes bytes = 0;
  for (TensorId id : storages_of(graph, op)) {
    const Bytes its = graph.tensor(id).bytes;
    const bool grows = !graph.is_resident(id) && its > kLargestElement;
    if (grows && !of_parameters.contains(its)) bytes += its;
  }
  return bytes;
}

/// What the user can change, with the bytes that are at stake.
std::string remedies(const Graph& graph, const Floor& floor) {
  std::vector<std::string> ways;
  if (floor.op != kNone) {
    if (const Bytes bytes = bytes_of_batch(graph, graph.op(floor.op)); bytes > 0) {
      ways.push_back(fmt::format("a smaller batch, with which {} of values of that op shrink",
                                 format_bytes(bytes)));
    }
    const Bytes workspace = graph.op(floor.op).workspace_bytes;
    if (workspace > 0) {
      ways.push_back(fmt::format("another op in its place that works in less than {}",
                                 format_bytes(workspace)));
    }
  }
  for (const ResidentBytes& kind : residents_by_kind(graph)) {
    if (kind.what == "optimizer state") {
      ways.push_back(fmt::format("an optimizer that keeps less than {}", format_bytes(kind.bytes)));
    }
    if (kind.what == "parameters") {
      ways.push_back(fmt::format("fewer parameters than {}", format_bytes(kind.bytes)));
    }
  }
  return ways.empty() ? "" : fmt::format(" To need less: {}.", fmt::join(ways, "; or "));
}

/// What is held while the inputs of an op are made, in whatever order.
std::string making_text(const Graph& graph, const Floor& alone, Bytes reserved_bytes) {
  const Bytes floor = bounds::budget_floor(graph);
  if (floor <= alone.bytes) return "";
  return fmt::format(
      " Since what ops read must be made while other values are held, no plan in any order needs "
      "less than {}.",
      in_full(floor + reserved_bytes));
}

}  // namespace

std::string why_not_less(const Graph& graph, Bytes reserved_bytes) {
  const Floor floor = structural_floor(graph);
  return fmt::format("No plan of any kind needs less than {}: resident tensors take {}{}{}{}.{}{}",
                     in_full(floor.bytes + reserved_bytes), format_bytes(graph.resident_bytes()),
                     residents_text(graph), reserved_text(reserved_bytes),
                     floor.op == kNone ? "" : op_text(graph, floor),
                     making_text(graph, floor, reserved_bytes), remedies(graph, floor));
}

}  // namespace lowtide::planner
