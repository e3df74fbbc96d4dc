#include "simulated/host_call.h"

#include <ATen/ATen.h>
#include <ATen/core/enum_tag.h>

#include <optional>
#include <utility>

#include "device/allocation.h"
#include "simulated/allocator.h"
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
    return host_generator(asked);
  }

  void run_kernel() {
    use_threads_of_process();
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const device::Serving serving(kernel_source());
    std::optional<DeviceDraws> draws;
    if (!has_generator_ && op_.hasTag(at::Tag::nondeterministic_seeded)) draws.emplace();
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
  HostViews views_;
  LateEffects effects_;
  bool has_generator_ = false;
};

}  // namespace

void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  HostCall(op, *stack).run();
}

}  // namespace lowtide::simulated
