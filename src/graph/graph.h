#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "graph/argument.h"
#include "graph/dtype.h"
#include "graph/initializer.h"

namespace lowtide {

using TensorId = std::int32_t;  ///< index into Graph::tensors()
using OpId = std::int32_t;      ///< index into Graph::ops()
inline constexpr std::int32_t kNone = -1;

using Shape = std::vector<std::int64_t>;

/// `resident`: exists before the first op and is held throughout (parameters, optimizer state,
/// the input batch). `value`: made by an op.
enum class Kind : std::uint8_t { value, resident };

/// The use of a tensor in the training step; for reports, checkpoints and data loading.
enum class Role : std::uint8_t {
  none,
  parameter,
  buffer,           ///< module state that is not trained, such as running statistics
  optimizer_state,  ///< momenta, step counters, the learning rate
  input,            ///< the batch: images, tokens
  target,           ///< the batch: labels
  constant,
  gradient,  ///< the final gradient of a parameter
  loss
};

enum class Phase : std::uint8_t { forward, backward, optimizer };

struct Tensor {
  std::string name;
  Bytes bytes = 0;  ///< of the storage that it owns; 0 for a view
  Kind kind = Kind::value;
  TensorId alias_of = kNone;  ///< the tensor whose storage a view shares; itself never a view
  std::optional<DType> dtype;
  Shape shape;
  Shape strides;  ///< in elements; empty means contiguous
  Role role = Role::none;
  std::optional<Initializer> init;
  TensorId gradient_of = kNone;  ///< for Role::gradient: the parameter
  std::string extra;             ///< unknown keys of the file as a JSON object; "" for none
};

/// The output at position `output` may overwrite the storage of the input at position `input` when
/// nothing needs that input afterwards.
struct InPlace {
  int output = 0;
  int input = 0;
  bool operator==(const InPlace&) const = default;
};

/// One request to the allocator that an op makes while it runs, in the order in which it makes
/// them. Recorded by profiling.
struct Allocation {
  Bytes bytes = 0;
  int output = -1;   ///< becomes the storage of that output; -1: scratch
  Bytes offset = 0;  ///< of scratch, inside the op's workspace
  bool operator==(const Allocation&) const = default;
};

struct Op {
  std::string name;
  std::string type;  ///< ATen name with overload, "aten::add.Tensor"
  std::vector<TensorId> inputs;
  /// The results in order, tensor lists flattened. Left out: None (a gradient that was not asked
  /// for), and the aliases that an op without fresh results returns.
  std::vector<TensorId> outputs;
  double cost = 0;             ///< of one execution, in the graph's cost unit
  bool cost_estimated = true;  ///< from a formula rather than a measurement
  Bytes workspace_bytes = 0;   ///< held while the op runs, apart from inputs and outputs
  Phase phase = Phase::forward;
  bool recomputable = true;
  bool random = false;  ///< draws random numbers; a second execution replays the same ones
  std::vector<InPlace> inplace;
  /// Positions of inputs (resident tensors) that the op writes: running statistics, parameters. A
  /// second execution of a recomputable op gets None for these inputs, so that an effect happens
  /// once.
  std::vector<int> mutates;
  /// The schema's arguments in order; trailing ones that keep their defaults may be left out.
  /// Empty: planned, not executable.
  std::vector<Argument> args;
  std::vector<Allocation> allocations;  ///< empty: not profiled
  std::string extra;
};

/// The data of a graph, before it is checked.
struct GraphData {
  std::string name;
  std::string cost_unit = "us";
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<TensorId> outputs;
  /// Bytes that the program needs after the step while it still holds the outputs, for example for
  /// its optimizer. They are within the budget if the layout has a section for the outputs and the
  /// rest of the arena is released (layout/sections.h). 0: none.
  Bytes after_bytes = 0;
  std::string device;  ///< which device its times and workspaces were measured on; "" for none
  /// Of that device: every address of a plan is a multiple of it, a power of two. The workspaces'
  /// offsets are too.
  Bytes alignment = kArenaAlignment;
  std::string extra;
};

/// A training computation: tensors and ops in a valid topological order. Immutable: every Graph
/// obeys all rules of docs/reference/graph-format.md.
///
/// Terms: a *storage* is a tensor that owns bytes (not a view); a *view op* writes nothing and has
/// outputs, all of which are views. A view op reads no bytes.
class Graph {
 public:
  /// Checks `data`. Throws InputError that names the op or tensor and the broken rule.
  explicit Graph(GraphData data);

  const std::string& name() const { return data_.name; }
  const std::string& cost_unit() const { return data_.cost_unit; }
  const std::string& device() const { return data_.device; }
  Bytes alignment() const { return data_.alignment; }
  std::span<const Tensor> tensors() const { return data_.tensors; }
  std::span<const Op> ops() const { return data_.ops; }
  const Tensor& tensor(TensorId id) const { return data_.tensors[static_cast<std::size_t>(id)]; }
  const Op& op(OpId id) const { return data_.ops[static_cast<std::size_t>(id)]; }
  int num_tensors() const { return static_cast<int>(data_.tensors.size()); }
  int num_ops() const { return static_cast<int>(data_.ops.size()); }
  /// Tensors that must be live after the last op.
  std::span<const TensorId> outputs() const { return data_.outputs; }
  Bytes after_bytes() const { return data_.after_bytes; }
  const GraphData& data() const { return data_; }

  /// The tensor that owns the bytes of `id`: itself, or the base of a view.
  TensorId storage(TensorId id) const {
    const TensorId base = tensor(id).alias_of;
    return base == kNone ? id : base;
  }
  bool is_resident(TensorId id) const { return tensor(storage(id)).kind == Kind::resident; }
  /// The op that makes a value or a view; kNone for resident storages.
  OpId producer(TensorId id) const { return producer_[static_cast<std::size_t>(id)]; }
  /// Ops that read exactly this tensor, in order, each once.
  std::span<const OpId> readers(TensorId id) const;
  /// Views that share the storage `id`.
  std::span<const TensorId> views(TensorId id) const;
  bool is_view_op(OpId id) const { return view_op_[static_cast<std::size_t>(id)]; }
  /// The first op after `id` that overwrites an input of `id`; num_ops() if there is none. No plan
  /// may run `id` after that op, since it would read another value. Always num_ops() for a view op.
  OpId expires(OpId id) const { return expires_[static_cast<std::size_t>(id)]; }
  /// Sum of the bytes of all resident tensors.
  Bytes resident_bytes() const { return resident_bytes_; }
  /// Whether every op has the data that the runtime needs (ATen type, arguments).
  bool executable() const { return executable_; }

 private:
  void index();

  GraphData data_;
  std::vector<OpId> producer_;
  std::vector<std::int32_t> reader_begin_;
  std::vector<OpId> readers_;
  std::vector<std::int32_t> view_begin_;
  std::vector<TensorId> views_;
  std::vector<bool> view_op_;
  std::vector<OpId> expires_;
  Bytes resident_bytes_ = 0;
  bool executable_ = true;
};

std::string_view name(Kind kind);
std::string_view name(Role role);
std::string_view name(Phase phase);

}  // namespace lowtide
