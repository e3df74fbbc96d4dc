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
    return tensor_over(block_.get() + runner_.map().residents[static_cast<std::size_t>(id)],
                       graph_.tensor(id), device_.torch_device(), block_);
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
        timed_actions_(options.record_times ? plan.actions.size() : 0) {}

  const Graph& graph_;
  const device::ComputeDevice& device_;
  std::shared_ptr<std::byte> block_;
  ArenaRunner runner_;
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
