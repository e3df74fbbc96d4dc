#pragma once

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <numeric>
#include <set>
#include <stdexcept>

#include "autodiff/gradient.h"
#include "autodiff/rule_case.h"
#include "builder/functions.h"
#include "support/interpret.h"

// A case of a rule computed twice: by a graph and its gradients, and by LibTorch's autograd.
namespace lowtide::testing {

inline constexpr int kSeed = 7;

/// A case as a graph: outputs, gradients and gradients of gradients.
struct Program {
  Builder builder{"case"};
  Values leaves;       ///< one per operand, as it lies in memory
  Values seeds;        ///< one per output
  Values outputs;
  Values gradients;    ///< of the floating leaves
  Values weights;      ///< one per gradient: the second differentiation's seeds
  Values seconds;      ///< of the floating leaves and the seeds
  std::set<std::string> differentiated;  ///< the op types that a sweep went through

  Values floating_leaves() const {
    Values result;
    for (Value leaf : leaves) {
      if (is_floating(leaf.dtype())) result.push_back(leaf);
    }
    return result;
  }
  void note_ops() {
    for (const Op& op : builder.data().ops) differentiated.insert(op.type);
  }
};

inline DType operand_type(const Operand& operand, DType dtype) {
  if (operand.draw == Draw::index) return DType::i64;
  return operand.draw == Draw::mask ? DType::boolean : dtype;
}

inline Shape shape_in_memory(const Operand& operand) {
  Shape shape = operand.shape;
  if (operand.transposed) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return shape;
}

inline std::vector<Value> like(Builder& builder, const Values& values, const char* name) {
  Values result;
  for (Value value : values) {
    result.push_back(builder.input(fmt::format("{}{}", name, result.size()), value.shape(),
                                   value.dtype()));
  }
  return result;
}

inline void write_program(const RuleCase& rule, DType dtype, Program& p) {
  Values operands;
  for (const Operand& operand : rule.operands) {
    const Value leaf = p.builder.input(fmt::format("x{}", operands.size()),
                                       shape_in_memory(operand), operand_type(operand, dtype));
    p.leaves.push_back(leaf);
    operands.push_back(operand.transposed ? transpose(leaf, -1, -2) : leaf);
  }
  p.outputs = rule.build(operands);
  p.seeds = like(p.builder, p.outputs, "seed");
  p.note_ops();
  p.gradients = autodiff::gradient(p.outputs, p.floating_leaves(), p.seeds);
  if (!rule.second) return;
  p.note_ops();
  p.weights = like(p.builder, p.gradients, "weight");
  Values inputs = p.floating_leaves();
  inputs.insert(inputs.end(), p.seeds.begin(), p.seeds.end());
  p.seconds = autodiff::gradient(p.gradients, inputs, p.weights);
}

inline at::Tensor draw(const Operand& operand, c10::ScalarType type) {
  const Shape shape = shape_in_memory(operand);
  const std::int64_t count =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const auto f64 = at::TensorOptions(at::kDouble);
  switch (operand.draw) {
    case Draw::normal: return at::randn(shape, f64).to(type);
    case Draw::positive: return (at::rand(shape, f64) + 0.5).to(type);
    case Draw::spread:
      return ((at::randperm(count, f64) - static_cast<double>(count / 2) + 0.5) * 0.37)
          .reshape(shape)
          .to(type);
    case Draw::index: return at::randint(operand.count, shape, at::kLong);
    case Draw::mask: return at::rand(shape, f64) > 0.5;
  }
  throw std::logic_error("a draw without numbers");
}

/// Values for every resident tensor of a program.
struct Data {
  Tensors leaves, seeds, weights;
};

inline Data draw_data(const RuleCase& rule, const Program& p, DType dtype) {
  at::manual_seed(kSeed);
  Data data;
  for (const Operand& operand : rule.operands) {
    data.leaves.push_back(draw(operand, torch_type(dtype)));
  }
  for (Value seed : p.seeds) {
    data.seeds.push_back(draw({.shape = seed.shape()}, torch_type(seed.dtype())));
  }
  for (Value weight : p.weights) {
    data.weights.push_back(draw({.shape = weight.shape()}, torch_type(dtype)));
  }
  return data;
}

struct Derivatives {
  Tensors outputs, first, second;
};

inline Tensors pick(const Tensors& tensors, const Values& values) {
  Tensors result;
  for (Value value : values) result.push_back(tensors[static_cast<std::size_t>(value.id())]);
  return result;
}

inline Interpreter interpreter(const Program& p) {
  Values outputs = p.outputs;
  outputs.insert(outputs.end(), p.gradients.begin(), p.gradients.end());
  outputs.insert(outputs.end(), p.seconds.begin(), p.seconds.end());
  return Interpreter(p.builder.build(outputs));
}

inline Derivatives run(const Interpreter& interpreter, const Program& p, const Data& data) {
  std::map<TensorId, at::Tensor> residents;
  const auto bind = [&](const Values& values, const Tensors& tensors) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      residents[values[i].id()] = tensors[i].clone();
    }
  };
  for (TensorId id = 0; id < interpreter.graph().num_tensors(); ++id) {
    const Tensor& tensor = interpreter.graph().tensor(id);
    if (!tensor.init) continue;  // zeros or another constant
    residents[id] = at::full(tensor.shape, tensor.init->a, torch_type(*tensor.dtype));
  }
  bind(p.leaves, data.leaves);
  bind(p.seeds, data.seeds);
  bind(p.weights, data.weights);
  at::manual_seed(kSeed);
  const Tensors tensors = interpreter.run(residents);
  return {pick(tensors, p.outputs), pick(tensors, p.gradients), pick(tensors, p.seconds)};
}

inline at::Tensor leaf(const at::Tensor& tensor) {
  const at::Tensor copy = tensor.clone();
  return tensor.is_floating_point() ? copy.requires_grad_() : copy;
}

inline Tensors zeros_where_undefined(Tensors gradients, const Tensors& of) {
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(of[i]);
  }
  return gradients;
}

/// autograd's second derivatives, with zeros where nothing depends on anything.
inline Tensors autograd_second(const Tensors& gradients, const Tensors& weights,
                               const Tensors& inputs) {
  Tensors outputs, seeds;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined() || !gradients[i].requires_grad()) continue;
    outputs.push_back(gradients[i]);
    seeds.push_back(weights[i]);
  }
  Tensors result(inputs.size());
  if (!outputs.empty()) {
    result = torch::autograd::grad(outputs, inputs, seeds, true, false, /*allow_unused=*/true);
  }
  return zeros_where_undefined(result, inputs);
}

inline Derivatives autograd(const RuleCase& rule, const Data& data) {
  Tensors operands, inputs, seeds;
  for (std::size_t i = 0; i < data.leaves.size(); ++i) {
    const at::Tensor x = leaf(data.leaves[i]);
    if (x.is_floating_point()) inputs.push_back(x);
    operands.push_back(rule.operands[i].transposed ? x.transpose(-1, -2) : x);
  }
  for (const at::Tensor& seed : data.seeds) seeds.push_back(leaf(seed));
  at::manual_seed(kSeed);
  Derivatives result;
  result.outputs = rule.torch(operands);
  Tensors differentiable, their_seeds;
  for (std::size_t k = 0; k < seeds.size(); ++k) {
    if (!result.outputs[k].requires_grad()) continue;
    differentiable.push_back(result.outputs[k]);
    their_seeds.push_back(seeds[k]);
  }
  result.first.resize(inputs.size());
  if (!differentiable.empty()) {
    result.first =
        torch::autograd::grad(differentiable, inputs, their_seeds, true, false, true);
  }
  result.first = zeros_where_undefined(result.first, inputs);
  if (!rule.second || !rule.torch_second || differentiable.empty()) return result;
  const Tensors again =
      torch::autograd::grad(differentiable, inputs, their_seeds, true, true, true);
  inputs.insert(inputs.end(), seeds.begin(), seeds.end());
  result.second = autograd_second(again, data.weights, inputs);
  return result;
}

}  // namespace lowtide::testing
