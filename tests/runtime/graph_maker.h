#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "runtime/kernel.h"

namespace lowtide::runtime {

/// An argument of GraphMaker::op: a tensor by id, several, or anything else.
struct T {
  TensorId id;
};
struct Ts {
  std::vector<TensorId> ids;
};
using MakerArg = std::variant<T, Ts, Argument>;

/// Writes an executable graph by hand. Each op runs on real tensors when it is added, and its
/// results give the types of its outputs, so that no shape rule of the library is trusted.
class GraphMaker {
 public:
  explicit GraphMaker(std::string name) { data_.name = std::move(name); }

  TensorId resident(std::string name, Shape shape, Initializer init,
                    DType dtype = DType::f32, Role role = Role::parameter) {
    Tensor tensor;
    tensor.name = std::move(name);
    tensor.kind = Kind::resident;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.role = role;
    tensor.init = init;
    const at::Tensor value = at::ones(tensor.shape, dtype == DType::i64    ? at::kLong
                                                    : dtype == DType::boolean ? at::kBool
                                                                            : at::kFloat);
    tensor.bytes = static_cast<Bytes>(value.nbytes());
    return add(std::move(tensor), value);
  }

  /// Appends an op; `mutates` lists argument indices. Returns the outputs.
  std::vector<TensorId> op(const std::string& type, const std::vector<MakerArg>& args,
                           const std::vector<std::size_t>& mutates = {}) {
    Op op;
    op.name = type.substr(6) + "_" + std::to_string(data_.ops.size());
    op.type = type;
    for (const MakerArg& arg : args) op.args.push_back(bind(op, arg));
    for (std::size_t index : mutates)
      op.mutates.push_back(std::get<TensorArg>(op.args[index]).position);
    op.random =
        type.find("dropout") != std::string::npos && type.find("backward") == std::string::npos;
    op.recomputable = !type.ends_with("_") && type.find("_.") == std::string::npos;
    if (type == "aten::relu" || type == "aten::tanh" || type == "aten::mul.Scalar") {
      op.inplace.push_back({0, 0});
    }
    std::vector<at::Tensor> inputs;
    for (TensorId id : op.inputs) inputs.push_back(values_[static_cast<std::size_t>(id)]);
    const auto results = Kernel(op).run(inputs);
    std::vector<TensorId> outputs;
    for (const at::Tensor& result : results) outputs.push_back(add_result(op, result));
    op.outputs = outputs;
    data_.ops.push_back(std::move(op));
    return outputs;
  }

  TensorId op1(const std::string& type, const std::vector<MakerArg>& args) {
    return op(type, args).at(0);
  }

  GraphData& data() { return data_; }
  Graph build(std::vector<TensorId> outputs) {
    data_.outputs = std::move(outputs);
    return Graph(data_);
  }

 private:
  TensorId add(Tensor tensor, at::Tensor value) {
    data_.tensors.push_back(std::move(tensor));
    values_.push_back(std::move(value));
    return static_cast<TensorId>(data_.tensors.size()) - 1;
  }

  Argument bind(Op& op, const MakerArg& arg) {
    if (const auto* tensor = std::get_if<T>(&arg)) return TensorArg{position(op, tensor->id)};
    if (const auto* tensors = std::get_if<Ts>(&arg)) {
      TensorListArg list;
      for (TensorId id : tensors->ids) list.positions.push_back(position(op, id));
      return list;
    }
    return std::get<Argument>(arg);
  }

  static int position(Op& op, TensorId id) {
    const auto found = std::ranges::find(op.inputs, id);
    if (found == op.inputs.end()) {
      op.inputs.push_back(id);
      return static_cast<int>(op.inputs.size()) - 1;
    }
    return static_cast<int>(found - op.inputs.begin());
  }

  TensorId add_result(const Op& op, const at::Tensor& result) {
    Tensor tensor;
    tensor.name = "t" + std::to_string(data_.tensors.size());
    tensor.shape = result.sizes().vec();
    if (!result.is_contiguous()) tensor.strides = result.strides().vec();
    tensor.dtype =
        parse_dtype(c10::toString(result.scalar_type()) == std::string("Float")  ? "f32"
                    : c10::toString(result.scalar_type()) == std::string("Long") ? "i64"
                                                                                 : "bool");
    tensor.bytes = static_cast<Bytes>(result.nbytes());
    for (TensorId in : op.inputs) {
      if (values_[static_cast<std::size_t>(in)].storage().is_alias_of(result.storage())) {
        const TensorId base = data_.tensors[static_cast<std::size_t>(in)].alias_of;
        tensor.alias_of = base == kNone ? in : base;
        tensor.bytes = 0;
      }
    }
    return add(std::move(tensor), result);
  }

  GraphData data_;
  std::vector<at::Tensor> values_;
};

/// The results of a graph when each op runs once in order on ordinary tensors: the oracle of every
/// executor. `residents` are updated in place.
inline std::map<TensorId, at::Tensor> interpret(const Graph& graph,
                                                std::map<TensorId, at::Tensor> residents,
                                                c10::Device device) {
  std::map<TensorId, at::Tensor> values = std::move(residents);
  for (const Op& op : graph.ops()) {
    std::vector<at::Tensor> inputs;
    for (TensorId id : op.inputs) inputs.push_back(values.at(id));
    const auto results = Kernel(op, device).run(inputs);
    for (std::size_t i = 0; i < results.size(); ++i) values[op.outputs[i]] = results[i];
  }
  return values;
}

}  // namespace lowtide::runtime
