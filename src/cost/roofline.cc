#include "cost/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "graph/boundary.h"
#include "ops/op_def.h"

namespace lowtide::cost {
namespace {

constexpr double kMicro = 1e6;

double elements(const Tensor& tensor) {
  double product = 1;
  for (std::int64_t size : tensor.shape) product *= static_cast<double>(size);
  return product;
}

/// Bytes moved by a read or write of the tensor; for a view, those of its own elements.
double traffic(const Tensor& tensor) {
  if (tensor.alias_of == kNone || !tensor.dtype) return static_cast<double>(tensor.bytes);
  return elements(tensor) * element_bytes(*tensor.dtype);
}

ops::TensorType type_of(const Tensor& tensor) {
  ops::TensorType type = ops::contiguous_type(tensor.dtype.value_or(DType::f32), tensor.shape);
  if (!tensor.strides.empty()) type.strides = tensor.strides;
  return type;
}

double output_elements(const Graph& graph, const Op& op) {
  double sum = 0;
  for (TensorId id : op.outputs) sum += elements(graph.tensor(id));
  return sum;
}

/// As GraphData::device of estimates begins.
constexpr std::string_view kLike = "like ";

}  // namespace

double counted_flops(const Graph& graph, const Op& op) {
  const ops::OpDef* def = op.args.empty() ? nullptr : ops::find_op(op.type);
  if (def == nullptr || def->flops == nullptr) return output_elements(graph, op);
  std::vector<ops::TensorType> inputs;
  for (TensorId id : op.inputs) inputs.push_back(type_of(graph.tensor(id)));
  const ops::OpCall call(op.type, op.args, inputs);
  try {
    // The count relies on arguments and shapes that the shape rule accepts.
    return def->flops(call, def->infer(call));
  } catch (const InputError&) {
    return output_elements(graph, op);
  }
}

double roofline_microseconds(const Work& work, const DeviceRates& rates) {
  const double seconds =
      std::max(work.flops / rates.flops(work.dtype), work.bytes / rates.bytes_per_second);
  return (seconds + rates.seconds_per_op) * kMicro;
}

double view_microseconds(const DeviceRates& rates) { return rates.seconds_per_view * kMicro; }

DType arithmetic_dtype(const Graph& graph, const Op& op) {
  for (const std::vector<TensorId>* ids : {&op.inputs, &op.outputs}) {
    for (TensorId id : *ids) {
      const std::optional<DType> dtype = graph.tensor(id).dtype;
      if (dtype && (is_floating(*dtype) || is_complex(*dtype))) return *dtype;
    }
  }
  return DType::f32;
}

double roofline_microseconds(const Graph& graph, OpId id, const DeviceRates& rates,
                             std::optional<double> flops) {
  if (graph.is_view_op(id)) return view_microseconds(rates);
  const Op& op = graph.op(id);
  Work work{.flops = flops ? *flops : counted_flops(graph, op),
            .dtype = arithmetic_dtype(graph, op)};
  for (TensorId in : op.inputs) work.bytes += traffic(graph.tensor(in));
  for (TensorId out : op.outputs) work.bytes += traffic(graph.tensor(out));
  return roofline_microseconds(work, rates);
}

Graph roofline_priced(const Graph& graph, const DeviceRates& rates,
                      std::span<const std::optional<double>> flops) {
  GraphData data = graph.data();
  data.cost_unit = "us";
  data.device = &rates == &default_rates() ? "" : like(rates);
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    Op& op = data.ops[static_cast<std::size_t>(id)];
    op.cost_estimated = true;
    if (is_boundary(op)) continue;
    op.cost = roofline_microseconds(
        graph, id, rates, flops.empty() ? std::nullopt : flops[static_cast<std::size_t>(id)]);
  }
  return Graph(std::move(data));
}

std::string like(const DeviceRates& rates) { return fmt::format("{}{}", kLike, rates.title); }

std::string cost_origin(const Graph& graph) {
  const std::string& device = graph.device();
  const auto estimated = std::ranges::count_if(graph.ops(), &Op::cost_estimated);
  if (device.starts_with(kLike)) return "estimates, " + device;
  if (device.empty()) return estimated > 0 ? "estimates" : "given with the graph";
  std::string measured = "measured on " + device;
  if (estimated == 0) return measured;
  return fmt::format("{}, {} of {} ops estimated", measured, estimated, graph.num_ops());
}

}  // namespace lowtide::cost
