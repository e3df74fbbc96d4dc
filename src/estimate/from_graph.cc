#include "estimate/from_graph.h"

#include <algorithm>
#include <functional>
#include <map>

#include "graph/boundary.h"
#include "graph/residents.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"

namespace lowtide::estimate {
namespace {

constexpr std::string_view kActivations = "activations";
constexpr std::string_view kGradients = "gradients";
constexpr std::string_view kInCallersMemory = "in the caller's memory";

/// The last op of the forward pass that computes; kNone without one. Of micro-batches it is that of
/// the last.
OpId last_forward_op(const Graph& graph) {
  for (OpId id = graph.num_ops() - 1; id >= 0; --id) {
    if (graph.op(id).phase == Phase::forward && !is_boundary(graph.op(id))) return id;
  }
  return kNone;
}

/// Storages of values that are there when the forward pass is over, each with its maker.
std::map<TensorId, OpId> held_after_forward(const Graph& graph, const Plan& plan) {
  const OpId last = last_forward_op(graph);
  std::map<TensorId, OpId> held;
  for (const Action& action : plan.actions) {
    if (action.verb == Verb::free) {
      held.erase(action.index);
    } else if (action.index > last) {
      break;
    } else {
      for (TensorId output : graph.op(action.index).outputs) {
        if (!graph.is_resident(output)) held.try_emplace(graph.storage(output), action.index);
      }
    }
  }
  return held;
}

/// "blocks.0.attn" of the op "blocks.0.attn.softmax"; "" for an op outside of all layers.
std::string_view layer_of(const Op& op) {
  const std::size_t dot = op.name.rfind('.');
  return dot == std::string::npos ? std::string_view() : std::string_view(op.name).substr(0, dot);
}

/// "softmax" of "aten::_softmax.out"
std::string_view kind_of(const Op& op) {
  std::string_view kind = op.type;
  if (const std::size_t colons = kind.rfind("::"); colons != std::string_view::npos) {
    kind.remove_prefix(colons + 2);
  }
  return kind.substr(0, kind.find('.'));
}

void sort_by_bytes(std::vector<Part>& parts) {
  std::ranges::stable_sort(parts, std::greater<>(), &Part::bytes);
}

void add_held_activations(Estimate& estimate, const Graph& graph, const Plan& plan) {
  bool has_layers = false;
  for (const auto& [storage, maker] : held_after_forward(graph, plan)) {
    const Bytes bytes = graph.tensor(storage).bytes;
    const Op& op = graph.op(maker);
    if (op.phase != Phase::forward) continue;  // gradients of micro-batches before the last
    has_layers = has_layers || !layer_of(op).empty();
    add_to(estimate.whole, kActivations, bytes);
    add_to(estimate.by_layer, layer_of(op), bytes);
    add_to(estimate.by_kind, kind_of(op), bytes);
  }
  if (!has_layers) estimate.by_layer.clear();
  sort_by_bytes(estimate.by_layer);
  sort_by_bytes(estimate.by_kind);
}

/// By tensor: whether it is the storage of a parameter's gradient, which may be a view of it.
std::vector<bool> gradient_storages(const Graph& graph) {
  std::vector<bool> is_gradient(graph.tensors().size());
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (graph.tensor(id).role != Role::gradient || graph.is_resident(id)) continue;
    is_gradient[static_cast<std::size_t>(graph.storage(id))] = true;
  }
  return is_gradient;
}

std::string_view part_of(const Graph& graph, TensorId storage) {
  switch (graph.op(graph.producer(storage)).phase) {
    case Phase::forward: return kActivations;
    case Phase::backward: return "gradients of activations";
    case Phase::optimizer: break;
  }
  return "update";
}

void add_gradients(Estimate& estimate, const Graph& graph) {
  const std::vector<bool> is_gradient = gradient_storages(graph);
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (is_gradient[static_cast<std::size_t>(id)]) {
      add_to(estimate.whole, kGradients, graph.tensor(id).bytes);
    }
  }
}

std::int64_t parameters_of(const Graph& graph) {
  std::int64_t count = 0;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role != Role::parameter || tensor.kind != Kind::resident || !tensor.dtype) continue;
    count += tensor.bytes / element_bytes(*tensor.dtype);
  }
  return count;
}

void add_replayed_peak(Estimate& estimate, const Graph& graph, const Plan& plan) {
  const Replay replayed = replay(graph, plan);
  const std::vector<bool> is_gradient = gradient_storages(graph);
  for (const TensorId storage : replayed.live_at_peak) {
    const bool lasts = is_gradient[static_cast<std::size_t>(storage)];
    add_to(estimate.at_peak, lasts ? kGradients : part_of(graph, storage),
           graph.tensor(storage).bytes);
  }
  add_to(estimate.at_peak, "workspace", replayed.workspace_at_peak);
  add_to(estimate.at_peak, kInCallersMemory, foreign_bytes(graph));
  estimate.peak_bytes = replayed.peak_bytes + foreign_bytes(graph);
  if (plan.actions.empty()) return;
  const Action& action = plan.actions[static_cast<std::size_t>(replayed.peak_action)];
  if (action.verb != Verb::run) return;
  estimate.peak_op = graph.op(action.index).name;
  estimate.peak_phase = name(graph.op(action.index).phase);
}

void add_notes(Estimate& estimate, const Graph& graph) {
  const bool profiled = std::ranges::any_of(
      graph.ops(), [](const Op& op) { return op.workspace_bytes > 0 || !op.allocations.empty(); });
  estimate.notes.push_back(profiled ? "Workspaces were measured."
                                    : "Workspaces of ops are not counted: `lowtide profile` "
                                      "measures them.");
  if (foreign_bytes(graph) > 0) {
    estimate.notes.push_back(
        "Results of the model and their gradients lie in the caller's memory, and count as if they "
        "were there during the whole step.");
  }
  const bool updates =
      std::ranges::any_of(graph.ops(), [](const Op& op) { return op.phase == Phase::optimizer; });
  if (!updates) estimate.notes.push_back("The step has no optimizer.");
}

}  // namespace

Estimate from_graph(const Graph& graph) {
  const Plan plan = keep_all(graph);
  Estimate estimate{.name = graph.name(), .parameters = parameters_of(graph)};
  for (const ResidentBytes& resident : residents_by_kind(graph)) {
    add_to(estimate.whole, resident.what, resident.bytes);
  }
  estimate.at_peak = estimate.whole;
  add_gradients(estimate, graph);
  add_held_activations(estimate, graph, plan);
  add_to(estimate.whole, kInCallersMemory, foreign_bytes(graph));
  add_replayed_peak(estimate, graph, plan);
  estimate.in_place_peak_bytes =
      replay(graph, with_in_place(graph, plan)).peak_bytes + foreign_bytes(graph);
  add_notes(estimate, graph);
  return estimate;
}

}  // namespace lowtide::estimate
