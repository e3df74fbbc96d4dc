#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/machine_memory.h"
#include "device/allocation_recorder.h"
#include "device/dynamic_pool.h"
#include "device/replayed_draw.h"
#include "ops/op_def.h"
#include "runtime/memory_mode.h"
#include "runtime/program.h"
#include "runtime/stopwatch.h"
#include "runtime/tensors.h"

namespace lowtide::runtime {
namespace {

std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

class PoolMode final : public MemoryMode {
 public:
  PoolMode(const Graph& graph, const Plan& plan, const ExecutorOptions& options)
      : graph_(graph),
        plan_(plan),
        options_(options),
        device_(*options.device),
        kernels_(bind_kernels(graph, plan, device_.torch_device())),
        pool_(device_, options.pool_bytes > 0 ? options.pool_bytes : addressable_memory()),
        outside_(device_.system()),
        values_(index(graph.num_tensors())),
        states_(index(graph.num_ops())),
        executed_(index(graph.num_ops())) {
    const auto service = device_.serve(pool_, outside_);
    present_ = new_state();
    make_residents();
    make_states();
  }

  at::Tensor resident(TensorId id) override { return values_[index(id)]; }
  at::Tensor output(TensorId id) override { return values_[index(id)]; }
  Bytes block_bytes() const override { return pool_.peak_bytes(); }
  StepReport step(const ResultListener& listener) override;

 private:
  at::Tensor new_state() const { return at::empty({device_.generator_state_bytes()}, at::kByte); }
  std::byte* state_of(const at::Tensor& state) const {
    return static_cast<std::byte*>(state.data_ptr());
  }
  void make_residents();
  void make_states();
  void drop_values();
  void release(TensorId storage);
  void act(std::int32_t action, const ResultListener& listener);
  void run(OpId id);
  void call(OpId id);

  const Graph& graph_;
  const Plan& plan_;
  ExecutorOptions options_;
  const device::ComputeDevice& device_;
  std::vector<std::unique_ptr<const Kernel>> kernels_;
  device::DynamicPool pool_;
  device::AllocationRecorder outside_;
  std::vector<at::Tensor> values_;  ///< by tensor; undefined while it is not live
  std::vector<at::Tensor> states_;  ///< by op: the generator before its first execution
  at::Tensor present_;
  std::vector<bool> executed_;  ///< by op: in this step
  std::vector<const at::Tensor*> inputs_;
  std::vector<at::Tensor> results_;
};

void PoolMode::make_residents() {
  const at::TensorOptions options(device_.torch_device());
  for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.kind != Kind::resident || tensor.alias_of != kNone) continue;
    const Shape strides =
        tensor.strides.empty() ? ops::contiguous_strides(tensor.shape) : tensor.strides;
    values_[index(id)] =
        at::empty_strided(tensor.shape, strides, options.dtype(scalar_type(tensor.dtype.value())))
            .zero_();
  }
}

void PoolMode::make_states() {
  std::vector<bool> ran(index(graph_.num_ops()));
  for (const Action& action : plan_.actions) {
    if (action.verb != Verb::run || !graph_.op(action.index).random) continue;
    if (ran[index(action.index)] && !states_[index(action.index)].defined()) {
      states_[index(action.index)] = new_state();
    }
    ran[index(action.index)] = true;
  }
}

void PoolMode::release(TensorId storage) {
  values_[index(storage)].reset();
  for (TensorId view : graph_.views(storage)) values_[index(view)].reset();
}

/// Releases the outputs of the previous step.
void PoolMode::drop_values() {
  for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
    if (graph_.producer(id) != kNone) values_[index(id)].reset();
  }
  executed_.assign(executed_.size(), false);
}

void PoolMode::call(OpId id) {
  const Kernel& kernel = *kernels_[index(id)];
  const at::Tensor& state = states_[index(id)];
  const bool again = executed_[index(id)];
  if (again && state.defined()) {
    const device::ReplayedDraw draw(device_, state_of(state), state_of(present_));
    kernel.run(inputs_, again, results_);
    return;
  }
  if (state.defined()) device_.save_generator(state_of(state));
  kernel.run(inputs_, again, results_);
}

void PoolMode::run(OpId id) {
  const Op& op = graph_.op(id);
  inputs_.clear();
  for (TensorId in : op.inputs) inputs_.push_back(&values_[index(in)]);
  call(id);
  require_results(op, results_.size());
  for (std::size_t i = 0; i < results_.size(); ++i) {
    values_[index(op.outputs[i])] = std::move(results_[i]);
  }
  results_.clear();
  executed_[index(id)] = true;
}

void PoolMode::act(std::int32_t index_of_action, const ResultListener& listener) {
  const Action& action = plan_.actions[index(index_of_action)];
  if (action.verb == Verb::free) {
    release(graph_.storage(action.index));
    return;
  }
  run(action.index);
  const Op& op = graph_.op(action.index);
  for (TensorId out : op.outputs) {
    if (listener) listener(index_of_action, out, values_[index(out)]);
  }
  for (int position : action.in_place) {
    const auto pair = std::ranges::find(op.inplace, position, &InPlace::output);
    release(graph_.storage(op.inputs[index(pair->input)]));
  }
}

StepReport PoolMode::step(const ResultListener& listener) {
  StepReport report;
  results_.clear();  // of an op that failed
  drop_values();
  pool_.reset_peak();
  outside_.clear();
  const std::int64_t before = pool_.count();
  const auto service = device_.serve(pool_, outside_);
  const Stopwatch watch;
  Stopwatch lap;
  for (std::size_t a = 0; a < plan_.actions.size(); ++a) {
    act(static_cast<std::int32_t>(a), listener);
    if (!options_.record_times) continue;
    device_.synchronize();
    report.action_seconds.push_back(lap.lap());
    report.action_memory.push_back(pool_.live_bytes());
  }
  device_.synchronize();
  report.seconds = watch.seconds();
  report.outside_bytes = outside_.peak_bytes();
  report.measured_peak_bytes = pool_.peak_bytes() + report.outside_bytes;
  report.allocations = pool_.count() - before + outside_.count();
  return report;
}

}  // namespace

std::unique_ptr<MemoryMode> pool_mode(const Graph& graph, const Plan& plan,
                                      const ExecutorOptions& options) {
  return std::make_unique<PoolMode>(graph, plan, options);
}

}  // namespace lowtide::runtime
