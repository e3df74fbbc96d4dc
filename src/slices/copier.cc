#include "slices/copier.h"

#include <optional>

#include "base/at.h"
#include "builder/call_args.h"
#include "builder/functions.h"

namespace lowtide::slices {

Copier::Copier(const Graph& graph, std::string name)
    : graph_(graph), builder_(std::move(name)), values_(at(graph.num_tensors())) {
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.kind != Kind::resident) continue;
    const DType dtype = tensor.dtype.value();
    values_[at(id)] =
        tensor.init ? builder_.resident(tensor.name, tensor.shape, dtype, tensor.role, *tensor.init)
                    : builder_.input(tensor.name, tensor.shape, dtype, tensor.role);
  }
}

/// A gradient lies as its parameter does: the update reads both as flat arrays.
void Copier::set(TensorId id, Value value) {
  const Tensor& tensor = graph_.tensor(id);
  if (tensor.role == Role::gradient) value = contiguous(value);
  values_[at(id)] = value;
  if (tensor.role == Role::none) return;
  const bool is_of_parameter = tensor.gradient_of != kNone;
  builder_.set_role(value, tensor.role,
                    is_of_parameter ? values_[at(tensor.gradient_of)].id() : kNone);
  if (tensor.role == Role::loss) builder_.set_name(value, tensor.name);
}

std::vector<Value> Copier::make(const Op& op, const std::function<std::vector<Value>()>& ops) {
  builder_.set_phase(op.phase);
  const std::string scope = scope_of(op);
  std::optional<Builder::Scope> names;
  if (!scope.empty()) names.emplace(builder_, scope);
  return ops();
}

void Copier::copy(const Op& op, const std::function<Value(TensorId)>& read) {
  const std::vector<CallArg> args =
      call_args(op, [&](int position) { return read(op.inputs[at(position)]); });
  const std::vector<Value> results = make(op, [&] { return builder_.call(op.type, args); });
  for (std::size_t i = 0; i < results.size(); ++i) set(op.outputs[i], results[i]);
}

Graph Copier::build() {
  std::vector<Value> outputs;
  for (TensorId id : graph_.outputs()) outputs.push_back(value(id));
  return builder_.build(outputs);
}

}  // namespace lowtide::slices
