#include "builder/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/at.h"
#include "base/control.h"
#include "base/error.h"
#include "base/nearest.h"
#include "builder/functions.h"
#include "ops/shapes.h"
#include "ops/strides.h"

namespace lowtide {
namespace {

bool same_layout(const ops::TensorType& a, const ops::TensorType& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
}

/// "add" for "aten::add.Tensor".
std::string_view short_name(std::string_view type) {
  const std::size_t colons = type.rfind(':');
  if (colons != std::string_view::npos) type.remove_prefix(colons + 1);
  return type.substr(0, type.find('.'));
}

/// Something is added to the first argument: the kernel copies that into the result and adds there.
/// Over the same bytes nothing changes, as the others are read after that.
bool adds_to_first(std::string_view type) {
  return type == "aten::addmm" || type == "aten::baddbmm" || type == "aten::scatter_add";
}

const ops::OpDef& known_op(std::string_view type) {
  if (const ops::OpDef* def = ops::find_op(type)) return *def;
  throw InputError(
      fmt::format("The library has no op \"{}\".{}", type, did_you_mean(type, ops::op_names())));
}

/// Positions of the inputs of one schema argument.
std::vector<int> positions_of(const Argument& argument) {
  if (const auto* tensor = std::get_if<TensorArg>(&argument)) return {tensor->position};
  if (const auto* list = std::get_if<TensorListArg>(&argument)) return list->positions;
  return {};
}

std::vector<int> mutated_positions(const ops::OpDef& def, const std::vector<Argument>& args) {
  std::vector<int> positions;
  for (int index : def.mutates) {
    if (at(index) >= args.size()) continue;
    for (int position : positions_of(args[at(index)])) positions.push_back(position);
  }
  return positions;
}

void require_sizes(const std::string& name, const Shape& shape) {
  if (std::ranges::all_of(shape, [](std::int64_t size) { return size >= 0; })) return;
  throw InputError(fmt::format("Tensor \"{}\" has a negative size in its shape {}.", name,
                               ops::format_shape(shape)));
}

TensorId storage_in(const GraphData& data, TensorId id) {
  const TensorId base = data.tensors[at(id)].alias_of;
  return base == kNone ? id : base;
}

/// Of an op's permissions to write over inputs, that over the first, unless it is a factor too.
void leave_first_in_place(const GraphData& data, Op& op) {
  const TensorId added = storage_in(data, op.inputs.front());
  const bool is_factor = std::any_of(op.inputs.begin() + 1, op.inputs.end(), [&](TensorId factor) {
    return storage_in(data, factor) == added;
  });
  std::erase_if(op.inplace, [&](const InPlace& pair) { return is_factor || pair.input != 0; });
}

/// For each storage, the last op that reads it; past the end if it must outlive the ops.
std::vector<std::size_t> last_uses(const GraphData& data) {
  std::vector<std::size_t> last(data.tensors.size(), 0);
  for (std::size_t i = 0; i < data.ops.size(); ++i) {
    for (TensorId id : data.ops[i].inputs) last[at(storage_in(data, id))] = i;
  }
  for (TensorId id : data.outputs) last[at(storage_in(data, id))] = data.ops.size();
  return last;
}

/// A graph allows one input per output: prefers the first input that dies at the op.
void choose_in_place(GraphData& data) {
  const std::vector<std::size_t> last = last_uses(data);
  for (std::size_t i = 0; i < data.ops.size(); ++i) {
    Op& op = data.ops[i];
    if (op.inplace.empty()) continue;
    const auto dying = std::ranges::find_if(op.inplace, [&](const InPlace& choice) {
      return last[at(storage_in(data, op.inputs[at(choice.input)]))] == i;
    });
    op.inplace = {dying == op.inplace.end() ? op.inplace.front() : *dying};
  }
}

}  // namespace

Builder& Value::builder() const {
  if (builder_ != nullptr) return *builder_;
  throw InputError("A tensor is needed, but the given one is empty.");
}

const ops::TensorType& Value::type() const { return builder().type(id_); }

std::int64_t Value::size(std::int64_t dim) const {
  return shape().at(ops::wrap_dim("size", dim, shape().size()));
}

Builder::Builder(std::string name) { data_.name = std::move(name); }

Value Builder::input(const std::string& name, Shape shape, DType dtype, Role role) {
  require_sizes(name, shape);
  const bool has_parts =
      micro_batches_ > 1 && !shape.empty() && (role == Role::input || role == Role::target);
  const std::int64_t rows = shape.empty() ? 0 : shape.front();
  if (has_parts) shape.front() *= micro_batches_;
  Tensor tensor;
  tensor.name = scoped(name);
  tensor.kind = Kind::resident;
  tensor.role = role;
  claim_name(tensor.name);
  const Value whole{this,
                    add_tensor(std::move(tensor), ops::contiguous_type(dtype, std::move(shape)))};
  return has_parts ? slice(whole, 0, 0, rows) : whole;
}

Value Builder::resident(const std::string& name, Shape shape, DType dtype, Role role,
                        Initializer init) {
  const Value value = input(name, std::move(shape), dtype, role);
  data_.tensors[at(value.id())].init = init;
  return value;
}

Value Builder::parameter(const std::string& name, Shape shape, Initializer init) {
  return resident(name, std::move(shape), DType::f32, Role::parameter, init);
}

Value Builder::buffer(const std::string& name, Shape shape, Initializer init, DType dtype) {
  return resident(name, std::move(shape), dtype, Role::buffer, init);
}

std::vector<Value> Builder::call(std::string_view type, const std::vector<CallArg>& args) {
  if (Control::stop_requested()) throw StoppedError("stopped while the graph was built.");
  if (data_.ops.size() == kMostOps) {
    throw InputError(fmt::format("The graph would have more than {} ops. Choose fewer layers or a "
                                 "shorter sequence.",
                                 kMostOps));
  }
  const ops::OpDef& def = known_op(type);
  Op op;
  op.type = type;
  op.phase = phase_;
  op.recomputable = def.recomputable;
  op.random = def.random;
  const std::vector<CallArg> cast_args =
      lower_ ? autocast_args(short_name(type), args) : std::vector<CallArg>();
  for (const CallArg& arg : lower_ ? cast_args : args) op.args.push_back(bind(arg, op));
  op.mutates = mutated_positions(def, op.args);

  std::vector<ops::TensorType> types;
  for (TensorId id : op.inputs) types.push_back(types_[at(id)]);
  const std::vector<ops::OutputType> outputs = def.infer(ops::OpCall(def.type, op.args, types));
  for (int position : op.mutates) {
    const Tensor& written = data_.tensors[at(storage(op.inputs[at(position)]))];
    if (written.kind == Kind::resident) continue;
    throw InputError(
        fmt::format("{} would write \"{}\", which is not a resident tensor.", type, written.name));
  }

  op.name = fresh_name(scoped(short_name(type)));
  std::vector<Value> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor tensor;
    tensor.name = outputs.size() == 1 ? op.name : fresh_name(fmt::format("{}.{}", op.name, i));
    const int viewed = outputs[i].view_of;
    if (viewed != kNone) tensor.alias_of = storage(op.inputs[at(viewed)]);
    op.outputs.push_back(add_tensor(std::move(tensor), outputs[i].type));
    if (outputs[i].storage_bytes != 0) data_.tensors.back().bytes = outputs[i].storage_bytes;
    results.emplace_back(this, op.outputs.back());
  }
  if (def.pointwise || adds_to_first(type)) permit_in_place(op);
  if (adds_to_first(type)) leave_first_in_place(data_, op);
  data_.ops.push_back(std::move(op));
  return results;
}

Value Builder::call1(std::string_view type, const std::vector<CallArg>& args) {
  const std::vector<Value> results = call(type, args);
  if (results.size() != 1) {
    throw InputError(fmt::format("{} has {} results, but one was expected.", type, results.size()));
  }
  return results.front();
}

TensorId Builder::input_id(const Value& value, std::string_view op) const {
  if (value && &value.builder() == this) return value.id();
  throw InputError(fmt::format("{}: an argument is {}.", op,
                               value ? "a tensor of another graph" : "an empty tensor"));
}

Argument Builder::bind(const CallArg& arg, Op& op) const {
  const auto append = [&](const Value& value) {
    op.inputs.push_back(input_id(value, op.type));
    return static_cast<int>(op.inputs.size()) - 1;
  };
  const auto argument = [&](const auto& given) -> Argument {
    using Given = std::decay_t<decltype(given)>;
    if constexpr (std::is_same_v<Given, Value>) {
      return given ? Argument(TensorArg{append(given)}) : Argument(NoneArg{});
    } else if constexpr (std::is_same_v<Given, std::vector<Value>>) {
      TensorListArg list;
      for (const Value& value : given) list.positions.push_back(append(value));
      return list;
    } else if constexpr (std::is_same_v<Given, int>) {
      return std::int64_t{given};
    } else {
      return given;
    }
  };
  return std::visit(argument, arg);
}

TensorId Builder::storage(TensorId id) const { return storage_in(data_, id); }

TensorId Builder::add_tensor(Tensor tensor, ops::TensorType type) {
  if (is_complex(type.dtype)) {
    throw InputError(fmt::format("\"{}\" would be of type {}; a builder knows the rules of real "
                                 "numbers only: capture complex models from PyTorch.",
                                 tensor.name, lowtide::name(type.dtype)));
  }
  tensor.dtype = type.dtype;
  tensor.shape = type.shape;
  if (type.strides != ops::contiguous_strides(type.shape)) tensor.strides = type.strides;
  if (tensor.alias_of == kNone) tensor.bytes = type.bytes();
  data_.tensors.push_back(std::move(tensor));
  types_.push_back(std::move(type));
  return static_cast<TensorId>(data_.tensors.size()) - 1;
}

/// Lists all inputs that the op may overwrite; build() keeps one. It may overwrite a value of the
/// same layout as the result, unless it reads the same memory in another layout too.
void Builder::permit_in_place(Op& op) const {
  const ops::TensorType& result = types_[at(op.outputs.front())];
  if (!ops::is_dense(result)) return;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Tensor& owner = data_.tensors[at(storage(op.inputs[i]))];
    const bool covered = owner.kind == Kind::value && owner.bytes == result.bytes();
    const bool only_reading = std::ranges::all_of(op.inputs, [&](TensorId other) {
      return storage(other) != storage(op.inputs[i]) || same_layout(types_[at(other)], result);
    });
    if (covered && only_reading) op.inplace.push_back({0, static_cast<int>(i)});
  }
}

void Builder::set_role(Value value, Role role, TensorId gradient_of) {
  Tensor& tensor = data_.tensors[at(input_id(value, "set_role"))];
  tensor.role = role;
  tensor.gradient_of = gradient_of;
}

void Builder::set_name(Value value, std::string name) {
  Tensor& tensor = data_.tensors[at(input_id(value, "set_name"))];
  if (tensor.name == name) return;
  claim_name(name);
  tensor.name = std::move(name);
}

std::vector<Value> Builder::parameters() {
  std::vector<Value> values;
  for (std::size_t i = 0; i < data_.tensors.size(); ++i) {
    if (data_.tensors[i].role != Role::parameter) continue;
    values.emplace_back(this, static_cast<TensorId>(i));
  }
  return values;
}

Graph Builder::build(const std::vector<Value>& outputs) const {
  GraphData data = data_;
  for (const Value& output : outputs) {
    const TensorId id = input_id(output, "build");
    if (!std::ranges::count(data.outputs, id)) data.outputs.push_back(id);
  }
  choose_in_place(data);
  return Graph(std::move(data));
}

std::string Builder::scoped(std::string_view name) const { return prefix_ + std::string(name); }

void Builder::claim_name(const std::string& name) {
  if (names_.emplace(name, 1).second) return;
  throw InputError(fmt::format("The name \"{}\" is taken.", name));
}

std::string Builder::fresh_name(const std::string& base) {
  std::string candidate = base;
  while (!names_.emplace(candidate, 1).second) {
    candidate = fmt::format("{}_{}", base, names_[base]++);
  }
  return candidate;
}

Builder::MicroBatches::MicroBatches(Builder& builder, std::int64_t count)
    : builder_(builder), before_(builder.micro_batches_) {
  builder_.micro_batches_ = count;
}

Builder::MicroBatches::~MicroBatches() { builder_.micro_batches_ = before_; }

Builder::Scope::Scope(Builder& builder, std::string_view name)
    : builder_(builder), length_(builder.prefix_.size()) {
  builder_.prefix_ += name;
  builder_.prefix_ += '.';
}

Builder::Scope::~Scope() { builder_.prefix_.resize(length_); }

}  // namespace lowtide
