#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "plan/plan.h"
#include "runtime/executor_options.h"
#include "runtime/step_report.h"

namespace lowtide::runtime {

/// Bytes that an Executor needs for a plan of this graph beside the plan's arena: the saved states
/// of the random generator, at most one for each random op that may run again.
Bytes generator_state_bytes(const Graph& graph);

/// Runs a plan on real tensors. Everything the step holds lies in one block taken at construction:
/// residents first, then values and workspaces where the plan's layout puts them.
///
/// A second execution of a random op draws what the first one drew; a second execution of an op
/// with effects leaves them out; so a step computes bit for bit what keep-all computes.
///
/// A step runs to its end: whoever wants to stop on a signal asks between two steps, since a step
/// cut short would leave parameters half updated. Not thread-safe; one Executor at a time may run
/// in a process (it serves the framework's allocator for its own thread while it runs).
///
/// The pool allocates what the plan makes when it is made, and releases it when the plan frees it;
/// it ignores addresses and in-place writes.
class Executor {
 public:
  /// `plan` must be verified and carry a layout (memory = arena); `graph` must be executable and,
  /// for the arena, profiled. Both must outlive the Executor. Throws InputError otherwise, and
  /// Error when the block cannot be had.
  Executor(const Graph& graph, const Plan& plan, const ExecutorOptions& options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// The memory of a resident tensor: read and write it between steps.
  at::Tensor resident(TensorId id);
  /// Fills every resident that has an initializer, from a generator with this seed.
  void initialize(std::uint64_t seed);
  /// Sees each tensor of `watched` right after the execution that first makes it, while it is live.
  using Watcher = std::function<void(TensorId, const at::Tensor&)>;
  void watch(std::vector<TensorId> watched, Watcher watcher);
  /// One training step. Throws Error when an op fails, naming the op; the residents are then in an
  /// undefined state, but once they are set again the Executor can go on.
  StepReport step();
  /// A graph output, after a step and until the next.
  at::Tensor output(TensorId id);
  /// Bytes of the block; for the pool, of what it has grown to.
  Bytes block_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowtide::runtime
