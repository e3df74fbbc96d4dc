#include "runtime/executor.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "device/device.h"
#include "graph/boundary.h"
#include "layout/layout.h"
#include "runtime/initialize.h"
#include "runtime/memory_mode.h"
#include "runtime/mover.h"

namespace lowtide::runtime {
namespace {

/// The pool moves no values.
void check_pool(const Graph& graph, const Plan& plan) {
  const TensorId moved = first_moved(plan);
  if (moved == kNone) return;
  throw InputError(fmt::format("the plan moves \"{}\" to slower memory, which the memory pool "
                               "does not do; run it in the arena",
                               graph.tensor(moved).name));
}

void check(const Graph& graph, const Plan& plan, const ExecutorOptions& options) {
  if (!graph.executable()) {
    throw InputError(fmt::format(
        "graph \"{}\" can be planned but not run: its ops carry no arguments", graph.name()));
  }
  if (find_boundary(graph) != kNone) {
    throw InputError(fmt::format("graph \"{}\" was captured as a forward and a backward pass, "
                                 "between which the caller's code runs; run it from PyTorch",
                                 graph.name()));
  }
  if (options.memory == ExecutorOptions::Memory::pool) check_pool(graph, plan);
  require_slower_memory(graph, plan, *options.device, options.slower);
  const bool addressed = plan.layout && plan.layout->placements.size() == plan.actions.size();
  if (options.memory == ExecutorOptions::Memory::arena && !addressed) {
    throw InputError("the plan has no addresses; lay it out first, or run it with the memory pool");
  }
  if (options.memory == ExecutorOptions::Memory::pool && options.pool_bytes == 0 &&
      !options.device->is_host_memory()) {
    throw InputError(
        fmt::format("the memory pool grows on the CPU alone; say how many bytes of {} it gets",
                    options.device->torch_device().str()));
  }
}

std::unique_ptr<MemoryMode> make_mode(const Graph& graph, const Plan& plan,
                                      const ExecutorOptions& options) {
  check(graph, plan, options);
  return options.memory == ExecutorOptions::Memory::arena ? arena_mode(graph, plan, options)
                                                          : pool_mode(graph, plan, options);
}

/// By op: the action of its first run; -1 for none.
std::vector<std::int32_t> first_actions(const Graph& graph, const Plan& plan) {
  std::vector<std::int32_t> first(static_cast<std::size_t>(graph.num_ops()), -1);
  for (std::size_t a = plan.actions.size(); a-- > 0;) {
    const Action& action = plan.actions[a];
    if (action.verb != Verb::run) continue;
    first[static_cast<std::size_t>(action.index)] = static_cast<std::int32_t>(a);
  }
  return first;
}

void require_resident(const Tensor& tensor) {
  if (tensor.kind == Kind::resident && tensor.alias_of == kNone) return;
  throw InputError(fmt::format("\"{}\" is not a resident tensor", tensor.name));
}

}  // namespace

struct Executor::Impl {
  const Graph& graph;
  std::unique_ptr<MemoryMode> mode;
  std::vector<std::int32_t> first_action;
  ResultListener listener;
};

Executor::Executor(const Graph& graph, const Plan& plan, const ExecutorOptions& options)
    : impl_(std::make_unique<Impl>(
          Impl{graph, make_mode(graph, plan, options), first_actions(graph, plan), {}})) {}

Executor::~Executor() = default;

at::Tensor Executor::resident(TensorId id) {
  require_resident(impl_->graph.tensor(id));
  return impl_->mode->resident(id);
}

void Executor::set_resident(TensorId id, const Fill& fill) {
  require_resident(impl_->graph.tensor(id));
  impl_->mode->set_resident(id, fill);
}

void Executor::initialize(std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  for (TensorId id = 0; id < impl_->graph.num_tensors(); ++id) {
    const Tensor& tensor = impl_->graph.tensor(id);
    if (tensor.kind != Kind::resident || !tensor.init) continue;
    set_resident(id, [&](const at::Tensor& into) { fill(into, *tensor.init, generator); });
  }
}

void Executor::watch(const std::vector<TensorId>& watched, Watcher watcher) {
  std::vector<bool> chosen(static_cast<std::size_t>(impl_->graph.num_tensors()));
  for (TensorId id : watched) chosen[static_cast<std::size_t>(id)] = true;
  impl_->listener = [this, chosen = std::move(chosen), watcher = std::move(watcher)](
                        std::int32_t action, TensorId id, const at::Tensor& tensor) {
    if (!chosen[static_cast<std::size_t>(id)]) return;
    const auto op = static_cast<std::size_t>(impl_->graph.producer(id));
    if (impl_->first_action[op] == action) watcher(id, tensor);
  };
  if (watched.empty()) impl_->listener = nullptr;
}

StepReport Executor::step() { return impl_->mode->step(impl_->listener); }

at::Tensor Executor::output(TensorId id) {
  const at::Tensor result = impl_->mode->output(id);
  if (result.defined()) return result;
  throw InputError(fmt::format("\"{}\" does not exist after a step; make it an output of the graph",
                               impl_->graph.tensor(id).name));
}

Bytes Executor::block_bytes() const { return impl_->mode->block_bytes(); }

Bytes generator_state_bytes(const Graph& graph, const device::ComputeDevice& device) {
  if (!device.is_host_memory()) return 0;
  const auto states =
      std::ranges::count_if(graph.ops(), [](const Op& op) { return op.random && op.recomputable; });
  return states * align_up(device.generator_state_bytes(), device.alignment());
}

void require_results(const Op& op, std::size_t results) {
  if (results == op.outputs.size()) return;
  throw Error(fmt::format("op \"{}\" ({}) gives {} results, but the graph has {}", op.name, op.type,
                          results, op.outputs.size()));
}

}  // namespace lowtide::runtime
