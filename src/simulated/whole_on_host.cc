#include "simulated/whole_on_host.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <utility>
#include <vector>

#include "device/allocation.h"
#include "device/autograd_node.h"
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

using Tensors = std::vector<at::Tensor>;

/// A CPU tensor over the bytes of one of the device, which it keeps alive. Changes of either count
/// as changes of both.
at::Tensor lasting_host_view(const at::Tensor& tensor) {
  if (!is_on_device(tensor)) return tensor;
  at::Tensor host = tensor_over(host_storage_over(tensor.storage()),
                                c10::DispatchKeySet(c10::DispatchKey::CPU), tensor);
  if (!tensor.is_inference()) {
    host.unsafeGetTensorImpl()->set_version_counter(
        tensor.unsafeGetTensorImpl()->version_counter());
  }
  return host;
}

at::Tensor lasting_device_view(const at::Tensor& host) {
  if (!host.defined()) return host;
  return tensor_over(device_storage_over(host.storage()),
                     c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), host);
}

/// The CPU casts within it as autocast casts for the device.
class SameAutocast {
 public:
  SameAutocast()
      : enabled_(at::autocast::is_autocast_enabled(at::kCPU)),
        type_(at::autocast::get_autocast_dtype(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, at::autocast::is_autocast_enabled(kDeviceType));
    at::autocast::set_autocast_dtype(at::kCPU, at::autocast::get_autocast_dtype(kDeviceType));
  }
  ~SameAutocast() {
    at::autocast::set_autocast_enabled(at::kCPU, enabled_);
    at::autocast::set_autocast_dtype(at::kCPU, type_);
  }
  SameAutocast(const SameAutocast&) = delete;
  SameAutocast& operator=(const SameAutocast&) = delete;

 private:
  bool enabled_;
  at::ScalarType type_;
};

/// The CPU's graph of one call, as one node of the device's.
class HostNode final : public torch::autograd::Node {
 public:
  HostNode(torch::autograd::edge_list edges, Tensors inputs)
      : torch::autograd::Node(std::move(edges)), inputs_(std::move(inputs)) {}

  void set_results(Tensors results) { results_ = std::move(results); }
  std::string name() const override { return "WholeOnHostBackward"; }
  void release_variables() override {
    inputs_.clear();
    results_.clear();
  }

  Tensors apply(Tensors&& gradients) override {
    TORCH_CHECK(!results_.empty(), "the graph of this backward pass was freed; give "
                                   "retain_graph=True to the pass before");
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(),
                                "the simulated device has no second derivative of this op");
    refuse_in_own_capture("the backward pass of an op that runs whole on the host");
    state().streams.finish(current_stream());
    Tensors results, given;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (!gradients[i].defined() || !results_[i].requires_grad()) continue;
      results.push_back(results_[i]);
      given.push_back(lasting_host_view(gradients[i]));
    }
    use_threads_of_process();
    const device::Serving serving(kernel_source());
    const Tensors found = torch::autograd::grad(results, inputs_, given, /*retain_graph=*/true,
                                                /*create_graph=*/false, /*allow_unused=*/true);
    Tensors device;
    for (const at::Tensor& gradient : found) device.push_back(lasting_device_view(gradient));
    return device;
  }

 private:
  Tensors inputs_;   ///< of the CPU, those that need gradients, in order of the edges
  Tensors results_;  ///< of the CPU
};

bool needs_gradient(const at::Tensor& tensor) {
  return is_on_device(tensor) && at::GradMode::is_enabled() && tensor.requires_grad();
}

struct Arguments {
  Arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    for (std::size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i) {
      visit_tensors(stack[i], [this](const at::Tensor& tensor) {
        if (tensor.defined() && !is_plain(tensor)) are_plain = false;
        if (needs_gradient(tensor)) need_gradients = true;
        if (tensor.defined() && is_plain(tensor) && !tensor.is_contiguous()) are_contiguous = false;
      });
    }
  }
  bool are_plain = true;
  bool need_gradients = false;
  bool are_contiguous = true;
};

class WholeCall {
 public:
  WholeCall(const c10::OperatorHandle& op, torch::jit::Stack& stack) : op_(op), stack_(stack) {}

  void run() {
    refuse_in_own_capture(op_.schema().name());
    state().streams.finish(current_stream());
    const std::size_t first = stack_.size() - op_.schema().arguments().size();
    for (std::size_t i = first; i < stack_.size(); ++i) {
      stack_[i] = with_tensors(stack_[i],
                               [this](const at::Tensor& tensor) { return taken_tensor(tensor); });
    }
    {
      use_threads_of_process();
      const device::Serving serving(kernel_source());
      const DeviceDraws draws;
      const SameAutocast autocast;
      op_.callBoxed(&stack_);
    }
    give_results();
  }

 private:
  at::Tensor taken_tensor(const at::Tensor& tensor) {
    at::Tensor host = lasting_host_view(tensor);
    if (!needs_gradient(tensor)) return host;
    host.set_requires_grad(true);
    edges_.push_back(torch::autograd::impl::gradient_edge(tensor));
    inputs_.push_back(host);
    return host;
  }

  void give_results() {
    Tensors hosts, devices;
    LateEffects effects(current_stream());
    const std::size_t count = op_.schema().returns().size();
    for (std::size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      hosts.push_back(stack_[i].toTensor());
      devices.push_back(lasting_device_view(hosts.back()));
      stack_[i] = devices.back();
      effects.has_made(devices.back().storage());
    }
    effects.defer();
    if (inputs_.empty()) return;
    const auto node = device::make_node<HostNode>(std::move(edges_), std::move(inputs_));
    for (std::size_t i = 0; i < hosts.size(); ++i) add_history(node, hosts[i], devices[i]);
    node->set_results(std::move(hosts));
  }

  static void add_history(const device::NodePointer& node, const at::Tensor& host,
                          const at::Tensor& result) {
    if (host.requires_grad()) {
      torch::autograd::set_history(result, node);
    } else {
      node->add_input_metadata(torch::autograd::Node::undefined_input());
    }
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  torch::autograd::edge_list edges_;
  Tensors inputs_;
};

}  // namespace

void WholeOnHost::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                             torch::jit::Stack* stack) {
  const Arguments arguments(op, *stack);
  const bool is_asked =
      when_ == When::always || (arguments.need_gradients && !arguments.are_contiguous);
  if (arguments.are_plain && is_asked) {
    WholeCall(op, *stack).run();
  } else {
    other_(op, keys, stack);
  }
}

}  // namespace lowtide::simulated
