#include <algorithm>

#include "runtime/arena_runner.h"
#include "runtime/memory_mode.h"
#include "runtime/stopwatch.h"
#include "runtime/tensors.h"

namespace lowtide::runtime {
namespace {

Bytes reserve_of(const Graph& graph, const ExecutorOptions& options) {
  if (options.overrun == ExecutorOptions::Overrun::stop) return 0;
  return options.reserve_bytes & ~(graph.alignment() - 1);
}

class ArenaMode final : public MemoryMode {
 public:
  ArenaMode(const Graph& graph, const Plan& plan, const ExecutorOptions& options)
      : ArenaMode(graph, plan, options,
                  map_block(graph, plan, GeneratorStates::of(*options.device),
                            reserve_of(graph, options))) {}

  at::Tensor resident(TensorId id) override {
    if (is_away(id)) return fetched(id);
    return tensor_over(block_.get() + runner_.map().residents[static_cast<std::size_t>(id)],
                       graph_.tensor(id), device_.torch_device(), block_);
  }

  void set_resident(TensorId id, const Executor::Fill& fill) override {
    if (!is_away(id)) return fill(resident(id));
    const auto memory = memory_for(id);
    fill(tensor_in(memory, id));
    device_.synchronize();
    const Tensor& tensor = graph_.tensor(id);
    slower_->wait(slower_->write(copy_of(id).offset, bytes_in(memory, id), tensor.name));
  }

  at::Tensor output(TensorId id) override {
    const at::Tensor* value = runner_.program().ends[static_cast<std::size_t>(id)];
    if (value == nullptr || !value->defined()) return {};
    return tensor_over(static_cast<std::byte*>(value->data_ptr()), *value, block_);
  }

  Bytes block_bytes() const override { return runner_.map().end - runner_.map().lead; }

  StepReport step(const ResultListener& listener) override;

 private:
  ArenaMode(const Graph& graph, const Plan& plan, const ExecutorOptions& options,
            const BlockMap& map)
      : graph_(graph),
        device_(*options.device),
        block_(device_.allocate_block(map.end)),
        runner_(graph, plan, device_, map, SectionAddresses(block_.get(), map.end),
                {.reserve_bytes = reserve_of(graph, options)}, options.slower),
        plan_(plan),
        slower_(options.slower),
        timed_actions_(options.record_times ? plan.actions.size() : 0) {}

  /// Whether the resident lies in slower memory between steps.
  bool is_away(TensorId id) const {
    return runner_.map().residents[static_cast<std::size_t>(id)] < 0;
  }

  at::Tensor fetched(TensorId id) const {
    const auto memory = memory_for(id);
    const Tensor& tensor = graph_.tensor(id);
    slower_->wait(slower_->read(copy_of(id).offset, bytes_in(memory, id), tensor.name));
    return tensor_in(memory, id);
  }

  const Copy& copy_of(TensorId id) const {
    return *std::ranges::find(plan_.slower->copies, id, &Copy::storage);
  }

  std::shared_ptr<std::byte> memory_for(TensorId id) const {
    return device_.allocate_block(graph_.tensor(id).bytes);
  }

  std::span<std::byte> bytes_in(const std::shared_ptr<std::byte>& memory, TensorId id) const {
    return {memory.get(), static_cast<std::size_t>(graph_.tensor(id).bytes)};
  }

  at::Tensor tensor_in(const std::shared_ptr<std::byte>& memory, TensorId id) const {
    return tensor_over(memory.get(), graph_.tensor(id), device_.torch_device(), memory);
  }

  const Graph& graph_;
  const device::ComputeDevice& device_;
  std::shared_ptr<std::byte> block_;
  ArenaRunner runner_;
  const Plan& plan_;
  slower::Store* slower_;
  std::size_t timed_actions_;
};

StepReport ArenaMode::step(const ResultListener& listener) {
  StepReport report;
  report.action_seconds.assign(timed_actions_, 0);
  runner_.begin();
  const Stopwatch watch;
  runner_.run(0, runner_.program().runs.size(), listener, report);
  report.seconds = watch.seconds();
  runner_.finish(report);
  if (timed_actions_ > 0) report.action_memory = runner_.program().memory;
  return report;
}

}  // namespace

std::unique_ptr<MemoryMode> arena_mode(const Graph& graph, const Plan& plan,
                                       const ExecutorOptions& options) {
  return std::make_unique<ArenaMode>(graph, plan, options);
}

}  // namespace lowtide::runtime
