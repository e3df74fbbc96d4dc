#pragma once

#include <functional>

#include "runtime/executor.h"

namespace lowtide::runtime {

/// Called for each tensor of an execution's results: the action and the tensor.
using ResultListener = std::function<void(std::int32_t action, TensorId id, const at::Tensor&)>;

/// How an Executor holds memory: the arena or the pool. Both run the same plans to the same bits.
class MemoryMode {
 public:
  virtual ~MemoryMode() = default;
  virtual at::Tensor resident(TensorId id) = 0;
  virtual at::Tensor output(TensorId id) = 0;
  virtual StepReport step(const ResultListener& listener) = 0;
  virtual Bytes block_bytes() const = 0;
};

/// Throws Error that names the op when it gave another number of results than the graph says.
void require_results(const Op& op, std::size_t results);

/// Every byte at its planned address in one block.
std::unique_ptr<MemoryMode> arena_mode(const Graph& graph, const Plan& plan,
                                       const ExecutorOptions& options);
/// Allocated when made, recycled when freed.
std::unique_ptr<MemoryMode> pool_mode(const Graph& graph, const Plan& plan,
                                      const ExecutorOptions& options);

}  // namespace lowtide::runtime
