#pragma once

#include <functional>

#include "runtime/executor.h"

namespace lowtide::runtime {

/// Called for each result tensor of an execution.
using ResultListener = std::function<void(std::int32_t action, TensorId id, const at::Tensor&)>;

/// The memory of an Executor: arena or pool. Both give the same bits for the same plan.
class MemoryMode {
 public:
  virtual ~MemoryMode() = default;
  virtual at::Tensor resident(TensorId id) = 0;
  virtual void set_resident(TensorId id, const Executor::Fill& fill) { fill(resident(id)); }
  virtual at::Tensor output(TensorId id) = 0;
  virtual StepReport step(const ResultListener& listener) = 0;
  virtual Bytes block_bytes() const = 0;
};

/// Throws Error that names the op when its number of results differs from the graph's.
void require_results(const Op& op, std::size_t results);

/// Every byte at its planned address in one block.
std::unique_ptr<MemoryMode> arena_mode(const Graph& graph, const Plan& plan,
                                       const ExecutorOptions& options);
/// Allocated when made, recycled when freed.
std::unique_ptr<MemoryMode> pool_mode(const Graph& graph, const Plan& plan,
                                      const ExecutorOptions& options);

}  // namespace lowtide::runtime
