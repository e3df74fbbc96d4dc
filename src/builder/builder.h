#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "ops/op_def.h"

namespace lowtide {

class Builder;

/// A handle of a tensor in a graph under construction: cheap to copy, valid as long as its
/// Builder.
class Value {
 public:
  Value() = default;
  Value(Builder* builder, TensorId id) : builder_(builder), id_(id) {}

  explicit operator bool() const { return builder_ != nullptr; }
  TensorId id() const { return id_; }
  /// Throws InputError for an empty Value, as do all members below.
  Builder& builder() const;
  const ops::TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  /// Size of a dimension; negative dimensions count from the end.
  std::int64_t size(std::int64_t dim) const;
  std::int64_t dim() const { return static_cast<std::int64_t>(shape().size()); }
  DType dtype() const { return type().dtype; }
  bool operator==(const Value&) const = default;

 private:
  Builder* builder_ = nullptr;
  TensorId id_ = kNone;
};

/// One schema argument of Builder::call(). An empty Value stands for None.
using CallArg = std::variant<NoneArg, Value, std::vector<Value>, bool, std::int64_t, int, double,
                             std::vector<std::int64_t>, std::vector<double>, DType, std::string>;

/// Most ops of a built graph: such a graph needs gigabytes itself, and no planner finishes it in a
/// day.
inline constexpr std::size_t kMostOps = 1'000'000;

/// Builds a graph op by op, in the order of the calls. Each call infers types, so it reports a
/// mistake at once.
///
///     Builder b("line");
///     Value x = b.input("x", {8, 3});
///     Value w = b.parameter("w", {1, 3}, init::normal(0, 0.1));
///     Value y = linear(x, w);            // builder/functions.h
///     Graph graph = b.build({y});
class Builder {
 public:
  explicit Builder(std::string name);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Value input(const std::string& name, Shape shape, DType dtype = DType::f32,
              Role role = Role::input);
  Value parameter(const std::string& name, Shape shape, Initializer init);
  Value buffer(const std::string& name, Shape shape, Initializer init, DType dtype = DType::f32);
  Value resident(const std::string& name, Shape shape, DType dtype, Role role, Initializer init);

  /// Appends an op with the arguments of its ATen schema in order; trailing defaults may be left
  /// out. Returns the outputs in order (none for an op that only mutates). Throws InputError for an
  /// op that the library does not know (with the nearest names), for arguments that do not fit, and
  /// for more than kMostOps ops; StoppedError when the user asks to stop.
  std::vector<Value> call(std::string_view type, const std::vector<CallArg>& args);
  /// The same for an op with one output.
  Value call1(std::string_view type, const std::vector<CallArg>& args);

  /// Ops appended from now on belong to this phase.
  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }
  /// `gradient_of`: for Role::gradient, the parameter.
  void set_role(Value value, Role role, TensorId gradient_of = kNone);
  /// Throws InputError for a name that another tensor has.
  void set_name(Value value, std::string name);

  const ops::TensorType& type(TensorId id) const { return types_[static_cast<std::size_t>(id)]; }
  const GraphData& data() const { return data_; }
  /// Every parameter, in the order of definition.
  std::vector<Value> parameters();

  /// While it lives, prefixes the names of new tensors and ops: Scope s(b, "layer1");
  class Scope {
   public:
    Scope(Builder& builder, std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
    std::size_t length_;
  };

  /// While it lives, a batch of `count` parts is built for one of them: input() makes a resident of
  /// the role input or target `count` times as large in its first dimension, and returns its first
  /// part (models/micro_batches.h).
  class MicroBatches {
   public:
    MicroBatches(Builder& builder, std::int64_t count);
    ~MicroBatches();
    MicroBatches(const MicroBatches&) = delete;
    MicroBatches& operator=(const MicroBatches&) = delete;

   private:
    Builder& builder_;
    std::int64_t before_;
  };
  /// How many parts the batch has, of which one is built.
  std::int64_t micro_batches() const { return micro_batches_; }

  /// While it lives, functions compute in the types that torch.autocast("cpu", dtype) gives them
  /// (builder/autocast.h). f32: no casts. Throws InputError for types other than f32, bf16 and f16.
  class Autocast {
   public:
    Autocast(Builder& builder, DType dtype);
    ~Autocast();
    Autocast(const Autocast&) = delete;
    Autocast& operator=(const Autocast&) = delete;

   private:
    Builder& builder_;
    std::optional<DType> before_;
  };
  /// Replaces the operands of a function by casts of them, if an Autocast lives and has it so.
  /// call() does so for the op that it is given; functions of several ops must do it first. Empty
  /// values are left alone.
  void autocast(std::string_view function, std::span<Value* const> operands);

  /// The finished graph; `outputs` are kept live to its end. The builder stays usable.
  /// Element-by-element ops get permission to write over an operand, if possible over one that dies
  /// there.
  Graph build(const std::vector<Value>& outputs) const;

 private:
  std::string scoped(std::string_view name) const;
  /// Throws InputError when the name is taken.
  void claim_name(const std::string& name);
  /// `base`, with a number appended when the name is taken.
  std::string fresh_name(const std::string& base);
  TensorId add_tensor(Tensor tensor, ops::TensorType type);
  TensorId input_id(const Value& value, std::string_view op) const;
  Argument bind(const CallArg& arg, Op& op) const;
  void permit_in_place(Op& op) const;
  std::vector<CallArg> autocast_args(std::string_view function, std::vector<CallArg> args);
  Value cast(Value value, DType dtype);
  TensorId storage(TensorId id) const;

  GraphData data_;
  std::vector<ops::TensorType> types_;
  Phase phase_ = Phase::forward;
  std::int64_t micro_batches_ = 1;  ///< of which the first is built
  std::string prefix_;
  std::map<std::string, int> names_;  ///< used names, and how often requested
  std::optional<DType> lower_;        ///< the lower precision of autocast; nothing: no casts
  std::map<TensorId, Value> lower_parameters_;  ///< casts to it, by parameter
};

namespace init {
Initializer zeros();
Initializer ones();
Initializer constant(double value);
Initializer uniform(double low, double high);
Initializer normal(double mean, double deviation);
/// He et al. 2015, fan-out, gain of ReLU: torchvision's default for convolutions.
Initializer kaiming_normal(const Shape& weight_shape);
/// PyTorch's default for Linear and Conv: uniform within 1/sqrt(fan in).
Initializer fan_in_uniform(const Shape& weight_shape);
}  // namespace init

}  // namespace lowtide
