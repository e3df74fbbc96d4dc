#include "runtime/kernel.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "batch_norm/ops.h"
#include "device/dynamic_pool.h"
#include "runtime/schema_value.h"
#include "stash/ops.h"

namespace lowtide::runtime {
namespace {

/// The stack position of a tensor of the op's inputs.
struct TensorSlot {
  std::size_t argument;
  std::size_t position;
  bool mutated;
};

/// The stack position of a list of tensors; a position of kNone is a hole.
struct ListSlot {
  std::size_t argument;
  std::vector<int> positions;
  bool holes;
};

c10::OperatorHandle resolve(const std::string& type) {
  batch_norm::register_ops();
  stash::register_ops();
  const std::size_t dot = type.find('.');
  std::string overload = dot == std::string::npos ? "" : type.substr(dot + 1);
  if (overload == "default") overload.clear();  // PyTorch's text for an overload without a name
  const auto found = c10::Dispatcher::singleton().findSchema({type.substr(0, dot), overload});
  if (found) return *found;
  throw InputError(fmt::format("LibTorch has no op {}: check its name and overload", type));
}

template <typename Element>
c10::IValue gather(const ListSlot& slot, std::span<const at::Tensor* const> inputs) {
  c10::List<Element> list;
  list.reserve(slot.positions.size());
  for (int position : slot.positions) {
    list.push_back(position == kNone ? Element()
                                     : Element(*inputs[static_cast<std::size_t>(position)]));
  }
  return list;
}

/// Appends the defined tensors of a result, which is a tensor or a list.
void flatten(c10::IValue& value, std::vector<at::Tensor>& results) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) results.push_back(std::move(value).toTensor());
  } else if (value.isTensorList()) {
    for (at::Tensor& tensor : value.toTensorVector()) {
      if (tensor.defined()) results.push_back(std::move(tensor));
    }
  }
}

/// Where the error is of one of these classes, by which programs catch it: the same with this text.
template <typename... Kinds>
void throw_as_one_of(const c10::Error& error, const std::string& text) {
  const auto throw_as = [&]<typename Kind>(const Kind* as_kind) {
    if (as_kind != nullptr) throw Kind(text, /*backtrace=*/nullptr);
  };
  (throw_as(dynamic_cast<const Kinds*>(&error)), ...);
}

}  // namespace

struct Kernel::Impl {
  Impl(const Op& op, c10::Device step_device)
      : name(op.name), type(op.type), handle(resolve(op.type)), device(step_device) {}

  void bind(const Op& op);
  void bind_argument(const Op& op, std::size_t index);
  void drop_unwanted();
  void check_position(const Op& op, int position, bool optional) const;
  void push_arguments(std::span<const at::Tensor* const> inputs, bool withhold_mutated);
  std::string label() const { return fmt::format("op \"{}\" ({})", name, type); }

  std::string name;
  std::string type;
  c10::OperatorHandle handle;
  c10::Device device;
  std::vector<c10::IValue> constants;  ///< one per schema argument, None for tensors
  std::vector<TensorSlot> tensors;
  std::vector<ListSlot> lists;
  std::vector<bool> dropped;  ///< returns that are a mutated input or were not asked for
  bool can_withhold = true;
  torch::jit::Stack stack;  ///< kept between runs for its memory
};

void Kernel::Impl::bind(const Op& op) {
  const auto& schema = handle.schema();
  if (op.args.size() > schema.arguments().size()) {
    throw InputError(fmt::format("{} gives {} arguments, but the schema has {}: {}", label(),
                                 op.args.size(), schema.arguments().size(), toString(schema)));
  }
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) bind_argument(op, i);
  for (const c10::Argument& result : schema.returns()) {
    dropped.push_back(result.alias_info() && result.alias_info()->isWrite());
  }
  drop_unwanted();
}

/// Some kernels also make gradients that their mask does not ask for.
void Kernel::Impl::drop_unwanted() {
  const std::optional<int> index = handle.schema().argumentIndexWithName("output_mask");
  if (!index) return;
  const c10::List<bool> mask = constants[static_cast<std::size_t>(*index)].toBoolList();
  for (std::size_t i = 0; i < std::min(mask.size(), dropped.size()); ++i) {
    if (!mask[i]) dropped[i] = true;
  }
}

void Kernel::Impl::check_position(const Op& op, int position, bool optional) const {
  if (optional && position == kNone) return;
  if (position >= 0 && static_cast<std::size_t>(position) < op.inputs.size()) return;
  throw InputError(fmt::format("{} has no input {}", label(), position));
}

void Kernel::Impl::bind_argument(const Op& op, std::size_t index) {
  const c10::Argument& expected = handle.schema().arguments()[index];
  const Argument argument = index < op.args.size() ? op.args[index] : Argument(NoneArg());
  constants.emplace_back();
  if (const auto* tensor = std::get_if<TensorArg>(&argument); tensor && takes_tensor(expected)) {
    check_position(op, tensor->position, false);
    const bool mutated = std::ranges::count(op.mutates, tensor->position) > 0;
    can_withhold = can_withhold && (!mutated || takes_none(expected));
    tensors.push_back({index, static_cast<std::size_t>(tensor->position), mutated});
  } else if (const auto* list = std::get_if<TensorListArg>(&argument);
             list && takes_tensor_list(expected)) {
    for (int position : list->positions) {
      check_position(op, position, takes_optional_tensors(expected));
      can_withhold = can_withhold && !std::ranges::count(op.mutates, position);
    }
    lists.push_back({index, list->positions, takes_optional_tensors(expected)});
  } else if (takes_device(expected)) {
    constants.back() = device;
  } else {
    try {
      constants.back() = schema_value(argument, expected);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}; the schema is {}", label(), error.what(),
                                   toString(handle.schema())));
    }
  }
}

void Kernel::Impl::push_arguments(std::span<const at::Tensor* const> inputs,
                                  bool withhold_mutated) {
  stack.assign(constants.begin(), constants.end());
  for (const TensorSlot& slot : tensors) {
    if (!(withhold_mutated && slot.mutated)) stack[slot.argument] = *inputs[slot.position];
  }
  for (const ListSlot& slot : lists) {
    stack[slot.argument] = slot.holes ? gather<std::optional<at::Tensor>>(slot, inputs)
                                      : gather<at::Tensor>(slot, inputs);
  }
}

Kernel::Kernel(const Op& op, c10::Device device) : impl_(std::make_unique<Impl>(op, device)) {
  impl_->bind(op);
}
Kernel::Kernel(Kernel&&) noexcept = default;
Kernel& Kernel::operator=(Kernel&&) noexcept = default;
Kernel::~Kernel() = default;

bool Kernel::can_withhold_mutated() const { return impl_->can_withhold; }

void Kernel::run(std::span<const at::Tensor* const> inputs, bool withhold_mutated,
                 std::vector<at::Tensor>& results) const {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  Impl& impl = *impl_;
  results.clear();
  impl.push_arguments(inputs, withhold_mutated);
  try {
    impl.handle.callBoxed(&impl.stack);
  } catch (const device::PoolFull& error) {
    impl.stack.clear();
    throw device::PoolFull(fmt::format("{}: {}", impl.label(), error.what()));
  } catch (const Error& error) {
    impl.stack.clear();
    throw Error(fmt::format("{}: {}", impl.label(), error.what()));
  } catch (const c10::OutOfMemoryError&) {  // programs catch it by its class
    impl.stack.clear();
    throw;
  } catch (const c10::Error& error) {
    impl.stack.clear();
    const std::string why =
        fmt::format("{} failed: {}", impl.label(), error.what_without_backtrace());
    throw_as_one_of<c10::IndexError, c10::ValueError, c10::TypeError, c10::NotImplementedError>(
        error, why);
    throw Error(why);
  } catch (const std::exception& error) {
    impl.stack.clear();
    throw Error(fmt::format("{} failed: {}", impl.label(), error.what()));
  }
  for (std::size_t i = 0; i < impl.stack.size(); ++i) {
    if (!impl.dropped[i]) flatten(impl.stack[i], results);
  }
  impl.stack.clear();
}

std::vector<at::Tensor> Kernel::run(std::span<const at::Tensor> inputs,
                                    bool withhold_mutated) const {
  std::vector<const at::Tensor*> addresses;
  addresses.reserve(inputs.size());
  for (const at::Tensor& input : inputs) addresses.push_back(&input);
  std::vector<at::Tensor> results;
  run(addresses, withhold_mutated, results);
  return results;
}

}  // namespace lowtide::runtime
