#pragma once

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <vector>

#include "graph/graph.h"
#include "ops/shapes.h"
#include "runtime/kernel.h"

namespace lowtide::testing {

inline c10::ScalarType torch_type(DType dtype) {
  switch (dtype) {
    case DType::c128: return c10::kComplexDouble;
    case DType::c64: return c10::kComplexFloat;
    case DType::f64: return c10::kDouble;
    case DType::f32: return c10::kFloat;
    case DType::f16: return c10::kHalf;
    case DType::bf16: return c10::kBFloat16;
    case DType::i64: return c10::kLong;
    case DType::i32: return c10::kInt;
    case DType::i16: return c10::kShort;
    case DType::i8: return c10::kChar;
    case DType::u64: return c10::ScalarType::UInt64;
    case DType::u8: return c10::kByte;
    case DType::boolean: return c10::kBool;
  }
  throw std::logic_error("a dtype without a counterpart");
}

/// Runs every op of a graph once, in order, on ordinary tensors, and keeps every result: the
/// simplest meaning of a graph.
class Interpreter {
 public:
  explicit Interpreter(Graph graph) : graph_(std::move(graph)) {
    for (const Op& op : graph_.ops()) kernels_.emplace_back(op);
  }

  const Graph& graph() const { return graph_; }

  /// Every tensor by its id. `residents` are written where ops write them.
  std::vector<at::Tensor> run(const std::map<TensorId, at::Tensor>& residents) const {
    std::vector<at::Tensor> tensors(static_cast<std::size_t>(graph_.num_tensors()));
    for (const auto& [id, tensor] : residents) tensors[static_cast<std::size_t>(id)] = tensor;
    for (OpId id = 0; id < graph_.num_ops(); ++id) run_op(id, tensors);
    return tensors;
  }

 private:
  void run_op(OpId id, std::vector<at::Tensor>& tensors) const {
    const Op& op = graph_.op(id);
    std::vector<at::Tensor> inputs;
    for (TensorId input : op.inputs) inputs.push_back(tensors[static_cast<std::size_t>(input)]);
    const auto results = kernels_[static_cast<std::size_t>(id)].run(inputs);
    if (results.size() != op.outputs.size()) {
      throw std::logic_error(fmt::format("{}: {} results for {} outputs", op.type, results.size(),
                                         op.outputs.size()));
    }
    for (std::size_t k = 0; k < results.size(); ++k) {
      expect_type(op, graph_.tensor(op.outputs[k]), results[k]);
      tensors[static_cast<std::size_t>(op.outputs[k])] = results[k];
    }
  }

  /// The graph's type of a result must be the type that the kernel made.
  static void expect_type(const Op& op, const Tensor& said, const at::Tensor& made) {
    const bool same_type = !said.dtype || made.scalar_type() == torch_type(*said.dtype);
    if (made.sizes() == said.shape && same_type) return;
    throw std::logic_error(fmt::format("{}: the graph says {}, the kernel made {}", op.type,
                                       ops::format_shape(said.shape),
                                       ops::format_shape(made.sizes().vec())));
  }

  Graph graph_;
  std::vector<runtime::Kernel> kernels_;
};

}  // namespace lowtide::testing
