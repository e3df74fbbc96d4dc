#include "parallel/units/graph_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "cost/roofline.h"
#include "graph/residents.h"
#include "parallel/units/step_part.h"
#include "strategy/chain/block_chain.h"
#include "strategy/layers/model_layers.h"

namespace lowtide::parallel {
namespace {

using strategy::CutGraph;

/// Of a chain; further points are left out evenly.
constexpr int kMostParts = 200;

/// Samples of the step of which the parts of all sizes are found: values that do not grow with the
/// samples are then small, and cross a cut without being counted.
constexpr std::int64_t kSamplesToCut = 8;

/// Cut before the stages of these ops.
CutGraph cut_before(const Graph& step, const std::vector<std::string>& begins) {
  CutGraph cut = strategy::cut_graph(step);
  cut.points.clear();
  for (int stage = 0; stage < cut.forward_end; ++stage) {
    const std::string& name = step.op(cut.graph.stage(stage).op).name;
    if (std::ranges::find(begins, name) != begins.end()) cut.points.push_back({.stage = stage});
  }
  return cut;
}

/// The ops of these stages, without those of the update.
std::vector<OpId> ops_of(const Graph& step, const CutGraph& cut, const std::vector<int>& stages) {
  std::vector<OpId> ops;
  for (int stage : stages) {
    const OpId op = cut.graph.stage(stage).op;
    if (op != kNone && step.op(op).phase != Phase::optimizer) ops.push_back(op);
  }
  return ops;
}

/// "blocks.3" of the op "blocks.3.attn.softmax": the name up to its first number.
std::string layer_name(const Op& op) {
  std::string_view path = op.name;
  const std::size_t last = path.rfind('.');
  const std::size_t digit = path.find_first_of("0123456789");
  if (digit == std::string_view::npos || digit > last) {
    return std::string(path.substr(0, std::min(last, path.size())));
  }
  return std::string(path.substr(0, path.find('.', digit)));
}

/// Residents of a step that the forward pass of a part reads.
std::vector<TensorId> residents_read(const Graph& step, std::span<const OpId> ops) {
  std::vector<TensorId> read;
  for (OpId op : ops) {
    if (step.op(op).phase != Phase::forward) continue;
    for (TensorId input : step.op(op).inputs) {
      if (step.is_resident(input)) read.push_back(step.storage(input));
    }
  }
  std::ranges::sort(read);
  read.erase(std::ranges::unique(read).begin(), read.end());
  return read;
}

/// The bytes of a step's state, by parameter.
class StateOfStep {
 public:
  explicit StateOfStep(const Graph& step) : step_(step) {
    for (const Tensor& tensor : step.tensors()) {
      if (tensor.role == Role::optimizer_state && tensor.kind == Kind::resident) {
        optimizer_ += tensor.bytes;
      }
      if (tensor.role != Role::gradient || tensor.gradient_of == kNone) continue;
      trained_.insert_or_assign(tensor.gradient_of, own_bytes(tensor));
    }
    for (const auto& [parameter, gradient] : trained_) all_ += step.tensor(parameter).bytes;
  }

  StateBytes of(TensorId resident) const {
    const Tensor& tensor = step_.tensor(resident);
    if (tensor.role != Role::parameter) {
      return {.others = tensor.role == Role::optimizer_state ? 0 : tensor.bytes};
    }
    const auto gradient = trained_.find(resident);
    if (gradient == trained_.end()) return {.parameters = tensor.bytes};
    return {.parameters = tensor.bytes,
            .gradients = gradient->second,
            .optimizer =
                static_cast<Bytes>(static_cast<double>(optimizer_) *
                                   static_cast<double>(tensor.bytes) / static_cast<double>(all_))};
  }

 private:
  /// Of a gradient, also where it is a view of a larger tensor.
  static Bytes own_bytes(const Tensor& tensor) {
    Bytes elements = 1;
    for (std::int64_t size : tensor.shape) elements *= size;
    return tensor.dtype ? elements * element_bytes(*tensor.dtype) : tensor.bytes;
  }

  const Graph& step_;
  std::map<TensorId, Bytes> trained_;  // by parameter: bytes of its gradient
  Bytes optimizer_ = 0, all_ = 0;
};

StepPart part_at(const Graph& step, const CutGraph& cut, const strategy::chain::BlockChain& chain,
                 int block) {
  const std::vector<OpId> ops = ops_of(step, cut, chain.stages(block));
  StepPart part{.name = ops.empty() ? "" : layer_name(step.op(ops.front())),
                .graph = part_of_step(step, ops)};
  const StateOfStep state(step);
  for (TensorId resident : residents_read(step, ops)) part.state += state.of(resident);
  for (OpId op : ops) part.flops += cost::counted_flops(step, step.op(op));
  if (block + 1 < chain.num_blocks()) {
    for (int value : chain.state(block + 1)) part.result_bytes += cut.graph.value(value).bytes;
  }
  return part;
}

StateBytes tied_state(const Graph& step, const CutGraph& cut,
                      const strategy::chain::BlockChain& chain) {
  StateBytes tied;
  if (chain.num_blocks() < 2) return tied;
  const auto read_by = [&](int block) {
    return residents_read(step, ops_of(step, cut, chain.stages(block)));
  };
  const std::vector<TensorId> first = read_by(0);
  const StateOfStep state(step);
  for (TensorId resident : read_by(chain.num_blocks() - 1)) {
    if (std::ranges::binary_search(first, resident)) tied += state.of(resident);
  }
  return tied;
}

/// All of a graph but its names: equal for units that are alike.
std::string signature(const StepPart& part) {
  std::string text = fmt::format("{} {} {} {}\n", part.state.parameters, part.state.gradients,
                                 part.state.others, part.result_bytes);
  for (const Tensor& tensor : part.graph.tensors()) {
    text += fmt::format("{} {} {}\n", tensor.bytes, static_cast<int>(tensor.kind), tensor.alias_of);
  }
  for (const Op& op : part.graph.ops()) {
    text += fmt::format("{} {} {} {}\n", op.type, op.cost, op.workspace_bytes,
                        static_cast<int>(op.phase));
    for (TensorId id : op.inputs) text += fmt::format("{} ", id);
    for (TensorId id : op.outputs) text += fmt::format("{} ", id);
  }
  return text;
}

/// The kind of each part, numbered in the order in which they first occur.
std::vector<int> kinds_of_parts(const CutStep& step) {
  std::map<std::string, int> known;
  std::vector<int> kinds;
  for (const StepPart& part : step.parts) {
    kinds.push_back(known.emplace(signature(part), static_cast<int>(known.size())).first->second);
  }
  return kinds;
}

/// One unit for each kind.
std::vector<Unit> units_of_parts(const CutStep& step, const std::vector<int>& sequence) {
  std::vector<Unit> units;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    if (sequence[i] != static_cast<int>(units.size())) continue;
    const StepPart& part = step.parts[i];
    const bool is_end = i == 0 || i + 1 == sequence.size();
    units.push_back({.name = part.name,
                     .state = part.state,
                     .tied = is_end ? step.tied : StateBytes(),
                     .flops = part.flops,
                     .result_bytes = part.result_bytes,
                     .plans = unit_plans(part.graph)});
  }
  return units;
}

double flops_of(const CutStep& step) {
  double flops = 0;
  for (const StepPart& part : step.parts) flops += part.flops;
  return flops;
}

StateBytes state_of_parts(const CutStep& step) {
  StateBytes state;
  for (const StepPart& part : step.parts) state += part.state;
  if (step.parts.size() > 1) state -= step.tied;
  return state;
}

DType arithmetic_type(const Graph& step) {
  const auto most = std::ranges::max_element(step.ops(), {}, [&](const Op& op) {
    return op.phase == Phase::optimizer ? 0 : cost::counted_flops(step, op);
  });
  return cost::arithmetic_dtype(step, *most);
}

}  // namespace

std::vector<std::string> part_begins(const Graph& step) {
  const CutGraph cut = strategy::cut_graph(step);
  const strategy::layers::ModelLayers layers =
      strategy::layers::model_layers(step, cut.graph, cut.forward_end);
  std::vector<std::string> begins;
  for (const strategy::Cut& point : cut.points) {
    const auto stage = static_cast<std::size_t>(point.stage);
    if (layers.of_stage[stage] == layers.of_stage[stage - 1]) continue;
    begins.push_back(step.op(cut.graph.stage(point.stage).op).name);
  }
  return begins;
}

CutStep cut_step(const Graph& step, const std::vector<std::string>& begins) {
  const CutGraph cut = cut_before(step, begins);
  const bool trains =
      std::ranges::any_of(step.ops(), [](const Op& op) { return op.phase == Phase::backward; });
  if (!trains) {
    throw InputError(
        fmt::format("{} has no backward pass: give the graph of a training step", step.name()));
  }
  const strategy::chain::BlockChain chain(cut, kMostParts);
  CutStep result;
  for (int block = 0; block < chain.num_blocks(); ++block) {
    result.parts.push_back(part_at(step, cut, chain, block));
  }
  result.tied = tied_state(step, cut, chain);
  return result;
}

LayeredModel graph_units(const std::string& name, const StepOfSize& make, bool any_size,
                         bool as_given) {
  const std::vector<std::string> begins = part_begins(make(any_size ? kSamplesToCut : 1));
  const Graph smallest = make(1);
  const CutStep cut = cut_step(smallest, begins);
  const std::vector<int> sequence = kinds_of_parts(cut);
  LayeredModel model;
  model.name = name;
  model.sequence = sequence;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    if (sequence[i] == static_cast<int>(model.kinds.size())) {
      model.kinds.push_back(cut.parts[i].name.empty() ? fmt::format("part {}", i)
                                                      : cut.parts[i].name);
    }
  }
  model.compute = arithmetic_type(smallest);
  model.flops_per_sample = flops_of(cut);
  model.state = state_of_parts(cut);
  model.can_split = [](int ranks) { return ranks == 1; };
  model.can_take = [any_size](std::int64_t samples) { return any_size || samples == 1; };
  const auto priced = [make, as_given](std::int64_t samples, const cost::DeviceRates& device) {
    return as_given ? make(samples) : cost::roofline_priced(make(samples), device);
  };
  model.whole_step = priced;
  model.units = [priced, begins, sequence](const UnitRequest& request) {
    const Graph step = priced(request.micro_batch, request.device);
    const CutStep parts = cut_step(step, begins);
    if (parts.parts.size() != sequence.size()) {
      throw InputError(
          fmt::format("{} has other parts with micro-batches of {}: give another --micro-batch",
                      step.name(), request.micro_batch));
    }
    return units_of_parts(parts, sequence);
  };
  return model;
}

}  // namespace lowtide::parallel
