#include "cost/roofline.h"

#include <algorithm>

#include "base/error.h"
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

double flops(const Graph& graph, const Op& op) {
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

}  // namespace

double roofline_microseconds(const Graph& graph, OpId id, const DeviceRates& rates) {
  if (graph.is_view_op(id)) return rates.seconds_per_view * kMicro;
  const Op& op = graph.op(id);
  double bytes = 0;
  for (TensorId in : op.inputs) bytes += traffic(graph.tensor(in));
  for (TensorId out : op.outputs) bytes += traffic(graph.tensor(out));
  const double seconds =
      std::max(flops(graph, op) / rates.flops_per_second, bytes / rates.bytes_per_second);
  return (seconds + rates.seconds_per_op) * kMicro;
}

Graph roofline_priced(const Graph& graph, const DeviceRates& rates) {
  GraphData data = graph.data();
  data.cost_unit = "us";
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    Op& op = data.ops[static_cast<std::size_t>(id)];
    op.cost = roofline_microseconds(graph, id, rates);
    op.cost_estimated = true;
  }
  return Graph(std::move(data));
}

}  // namespace lowtide::cost
