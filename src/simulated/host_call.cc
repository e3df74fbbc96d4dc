#include "simulated/host_call.h"

#include <ATen/ATen.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/allocation.h"
#include "simulated/allocator.h"
#include "simulated/capture.h"
#include "simulated/generator.h"
#include "simulated/host_views.h"
#include "simulated/kernel_threads.h"
#include "simulated/late_effects.h"
#include "simulated/state.h"
#include "simulated/value_tensors.h"

namespace lowtide::simulated {
namespace {

class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op), stack_(stack), effects_(current_stream()) {}

  void run() {
    state().streams.drop_owners();
    state().streams.finish(current_stream());
    take_arguments();
    run_kernel();
    views_.follow_changes();
    give_results();
    effects_.defer();
  }

 private:
  void take_arguments() {
    const std::vector<c10::Argument>& arguments = op_.schema().arguments();
    const std::size_t first = stack_.size() - arguments.size();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      c10::IValue& value = stack_[first + i];
      const c10::AliasInfo* const alias = arguments[i].alias_info();
      if (alias != nullptr && alias->isWrite()) will_write(value);
      value = taken(value, arguments[i]);
    }
  }

  void will_write(const c10::IValue& value) {
    visit_tensors(value, [this](const at::Tensor& tensor) {
      if (is_on_device(tensor)) effects_.will_write(tensor);
    });
  }

  c10::IValue taken(const c10::IValue& value, const c10::Argument& argument) {
    if (value.isDevice()) {
      return value.toDevice().type() == kDeviceType ? at::Device(at::kCPU) : value.toDevice();
    }
    if (is_generator(argument)) return generator_for(value);
    return with_tensors(value, [this](const at::Tensor& tensor) { return views_.to_host(tensor); });
  }

  static bool is_generator(const c10::Argument& argument) {
    return argument.type()->isSubtypeOf(*c10::OptionalType::create(c10::GeneratorType::get()));
  }

  c10::IValue generator_for(const c10::IValue& value) {
    has_generator_ = true;
    const at::Generator asked = value.isNone() ? default_generator() : value.toGenerator();
    TORCH_CHECK(is_device_generator(asked), "Expected a generator of the simulated device for '",
                op_.schema().name(), "', but it is of ", asked.device());
    will_draw(host_generator(asked));
    return host_generator(asked);
  }

  void will_draw(const at::Generator& host) {
    if (capture_ != nullptr) capture_->will_draw(host);
  }

  void run_kernel() {
    use_threads_of_process();
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const device::Serving serving(kernel_source());
    std::optional<DeviceDraws> draws;
    if (!has_generator_ && op_.hasTag(at::Tag::nondeterministic_seeded)) {
      will_draw(host_generator(default_generator()));
      draws.emplace();
    }
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
  }

  void give_results() {
    const std::size_t count = op_.schema().returns().size();
    for (std::size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      stack_[i] = with_tensors(
          stack_[i], [this](const at::Tensor& tensor) { return views_.to_device(tensor); });
    }
    for (const c10::Storage& storage : views_.new_storages()) effects_.has_made(storage);
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  Capture* capture_ = capture_of(current_stream());
  HostViews views_;
  LateEffects effects_;
  bool has_generator_ = false;
};

/// Whether the op has a mask among its indices, of which it counts the elements first.
bool is_mask(const at::Tensor& index) {
  return index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte);
}

bool is_host_index(const at::Tensor& index) {
  return index.defined() && index.is_cpu() && index.dim() > 0;
}

bool any_index(std::span<const c10::IValue> arguments, bool (*matches)(const at::Tensor&)) {
  bool found = false;
  for (const c10::IValue& value : arguments) {
    if (!value.isOptionalTensorList()) continue;
    visit_tensors(value, [&](const at::Tensor& index) { found = found || matches(index); });
  }
  return found;
}

bool has_known_size(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments) {
  const std::optional<int> size = op.schema().argumentIndexWithName("output_size");
  return size && !arguments[static_cast<std::size_t>(*size)].isNone();
}

/// Ops without a tag that says so: a GPU's host reads how many different rows there are.
bool counts_rows(const c10::OperatorHandle& op) {
  return op.schema().name() == "aten::embedding_renorm_";
}

/// Refuses what makes the host wait on a GPU: for the value or the size of a result, for indices.
void refuse_what_waits(Capture& capture, const c10::OperatorHandle& op,
                       std::span<const c10::IValue> arguments) {
  const bool takes_indices = std::ranges::any_of(
      arguments, [](const c10::IValue& value) { return value.isOptionalTensorList(); });
  const bool waits = op.hasTag(at::Tag::data_dependent_output) || counts_rows(op) ||
                     any_index(arguments, &is_mask) || any_index(arguments, &is_host_index) ||
                     (op.hasTag(at::Tag::dynamic_output_shape) && !takes_indices &&
                      !has_known_size(op, arguments));
  if (waits) capture.refuse(op.schema().name() + ", for which the host waits");
}

using Addresses = std::vector<const void*>;

/// Of the tensors among the last `count` values.
Addresses result_addresses(const torch::jit::Stack& stack, std::size_t count) {
  Addresses addresses;
  for (std::size_t i = stack.size() - count; i < stack.size(); ++i) {
    visit_tensors(stack[i], [&](const at::Tensor& tensor) {
      const bool has_bytes = is_on_device(tensor) && tensor.storage().nbytes() > 0;
      addresses.push_back(has_bytes ? tensor.storage().data() : nullptr);
    });
  }
  return addresses;
}

void record_call(Capture& capture, const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const std::size_t first = stack.size() - op.schema().arguments().size();
  const torch::jit::Stack arguments(stack.begin() + static_cast<std::ptrdiff_t>(first),
                                    stack.end());
  refuse_what_waits(capture, op, arguments);
  capture.record(op.schema().name(), [&]() -> Submit {
    // All of them: native_batch_norm writes statistics that its schema does not mark.
    for (const c10::IValue& value : arguments) {
      visit_tensors(value, [&](const at::Tensor& tensor) { capture.will_write(tensor); });
    }
    HostCall(op, stack).run();
    torch::jit::Stack again;
    for (const c10::IValue& value : arguments) again.push_back(with_tensors(value, &borrowed));
    const std::size_t count = op.schema().returns().size();
    return [op, again, count, found = result_addresses(stack, count)] {
      torch::jit::Stack replayed = again;
      HostCall(op, replayed).run();
      TORCH_CHECK(result_addresses(replayed, count) == found, op.schema().name(),
                  " gives its results in a replay at other addresses than in the capture");
    };
  });
}

}  // namespace

void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  if (Capture* const capture = capture_of(current_stream())) {
    return record_call(*capture, op, *stack);
  }
  ++state().launches;
  HostCall(op, *stack).run();
}

}  // namespace lowtide::simulated
