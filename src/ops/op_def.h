#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace lowtide::ops {

/// The known properties of a tensor before it exists. `strides` are in elements.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  Shape strides;

  std::int64_t elements() const;
  Bytes bytes() const { return elements() * element_bytes(dtype); }
  bool contiguous() const;
};

Shape contiguous_strides(const Shape& shape);
TensorType contiguous_type(DType dtype, Shape shape);

/// An op's arguments in schema order, tensors by their types: the input of shape rules.
class OpCall {
 public:
  OpCall(std::string_view type, std::span<const Argument> args, std::span<const TensorType> inputs)
      : type_(type), args_(args), inputs_(inputs) {}

  std::string_view type() const { return type_; }
  std::size_t size() const { return args_.size(); }
  /// Whether argument i is given and not None. Omitted trailing arguments keep their defaults.
  bool has(std::size_t i) const;
  template <typename T>
  bool holds(std::size_t i) const {
    return i < args_.size() && std::holds_alternative<T>(args_[i]);
  }
  const TensorType& tensor(std::size_t i) const;         ///< throws InputError when it is not one
  std::vector<TensorType> tensors(std::size_t i) const;  ///< a tensor list
  std::int64_t integer(std::size_t i) const;
  double number(std::size_t i) const;  ///< a double, or an integer as one
  bool boolean(std::size_t i) const;
  bool boolean_or(std::size_t i, bool otherwise) const;
  std::int64_t integer_or(std::size_t i, std::int64_t otherwise) const;
  std::vector<std::int64_t> integers(std::size_t i) const;  ///< {} for None
  DType dtype(std::size_t i, DType otherwise) const;
  /// The position among the op's inputs of tensor argument i; kNone when absent.
  int position(std::size_t i) const;

 private:
  std::string_view type_;
  std::span<const Argument> args_;
  std::span<const TensorType> inputs_;
};

/// An output that a shape rule predicts.
struct OutputType {
  TensorType type;
  /// Position of the op's input whose storage this output shares; -1 for a fresh tensor.
  int view_of = -1;
  /// Bytes of a fresh tensor's memory if its elements need fewer; else 0.
  Bytes storage_bytes = 0;
};

/// All facts about one ATen op that planning and building use. One entry per op, in the file of its
/// family under src/ops/; its gradient is a rule under src/autodiff/rules/.
struct OpDef {
  std::string_view type;  ///< with overload: "aten::add.Tensor"
  /// Types of the outputs, without running the op. Throws InputError for shapes that do not fit.
  std::vector<OutputType> (*infer)(const OpCall& call) = nullptr;
  /// Computes each element of output 0 from the same element of the inputs, so that output 0 may
  /// be written over an input of equal bytes, type and layout.
  bool pointwise = false;
  /// Draws from the generator.
  bool random = false;
  /// Recomputed by the `selective` strategy: needs little time for the bytes it makes.
  bool cheap = false;
  bool recomputable = true;
  /// Positions in the schema of the arguments that the op writes.
  std::vector<int> mutates = {};
  /// Floating-point operations of one execution; null: one per output element.
  double (*flops)(const OpCall& call, std::span<const OutputType> outputs) = nullptr;
};

/// OpDef::flops of an op that only moves data.
inline double no_flops(const OpCall&, std::span<const OutputType>) { return 0; }

/// The entry of an op; nullptr for an op that is not in the library.
const OpDef* find_op(std::string_view type);
std::vector<std::string> op_names();

// One function per family; the registry in op_def.cc lists them.
std::span<const OpDef> pointwise_ops();
std::span<const OpDef> view_ops();
std::span<const OpDef> matrix_ops();
std::span<const OpDef> convolution_ops();
std::span<const OpDef> normalization_ops();
std::span<const OpDef> pooling_ops();
std::span<const OpDef> reduction_ops();
std::span<const OpDef> indexing_ops();
std::span<const OpDef> random_ops();
std::span<const OpDef> loss_ops();
std::span<const OpDef> optimizer_ops();

}  // namespace lowtide::ops
