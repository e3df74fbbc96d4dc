#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "plan/plan.h"
#include "runtime/executor_options.h"

namespace lowtide::runtime {

/// The measurements of one step.
struct StepReport {
  double seconds = 0;
  Bytes measured_peak_bytes = 0;      ///< highest byte in use, residents and reserve included
  std::int64_t allocations = 0;       ///< requests of ops, all served inside the arena
  Bytes outside_bytes = 0;            ///< peak of other memory from the framework's allocator: 0
  slower::Counters moved;             ///< to slower memory and back
  std::vector<std::string> overruns;  ///< one line per op that requested more than profiled
  /// Per action. Arena: only the first step makes views; later they cost nothing.
  std::vector<double> action_seconds;
  std::vector<Bytes> action_memory;  ///< bytes of live tensors after each action
};

/// Bytes that an Executor needs on the device in addition to the arena of a plan of this graph:
/// saved states of the random generator, at most one for each random op that may run again. 0 where
/// the states lie in memory of the host.
Bytes generator_state_bytes(const Graph& graph,
                            const device::ComputeDevice& device = device::cpu_device());

/// Runs a plan on real tensors. All data of the step lies in one block allocated at construction:
/// residents first, then values and workspaces at the addresses of the plan's layout.
///
/// A second execution of a random op draws the same numbers; a second execution of an op with
/// effects leaves them out; so a step gives the same bits as keep-all.
///
/// A step always runs to its end, since an interrupted step would leave parameters half updated:
/// check for signals between steps. Not thread-safe; one Executor at a time may run in a process
/// (while it runs, it serves the framework's allocator for its own thread).
///
/// The pool allocates each storage when the plan makes it, and releases it when the plan frees it;
/// it ignores addresses and in-place writes. Constructor and step() throw device::PoolFull where it
/// needs more than `pool_bytes`.
class Executor {
 public:
  /// `plan` must be verified and have a layout (memory = arena); `graph` must be executable and,
  /// for the arena, profiled. Both must outlive the Executor. Throws InputError otherwise, and
  /// Error when the allocation of the block fails.
  Executor(const Graph& graph, const Plan& plan, const ExecutorOptions& options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// The memory of a resident tensor: read and write it between steps. Of one that lies in slower
  /// memory, a copy: only set_resident() changes that.
  at::Tensor resident(TensorId id);
  /// Writes the whole of its tensor.
  using Fill = std::function<void(const at::Tensor&)>;
  /// Gives a resident new content, also in slower memory, between steps.
  void set_resident(TensorId id, const Fill& fill);
  /// Fills every resident that has an initializer, from a generator with this seed. Of those in
  /// slower memory, one at a time is in memory.
  void initialize(std::uint64_t seed);
  /// Sees each tensor of `watched` right after the execution that first makes it, while it is live.
  using Watcher = std::function<void(TensorId, const at::Tensor&)>;
  void watch(const std::vector<TensorId>& watched, Watcher watcher);
  /// One training step. Throws Error that names the op or the moved value that failed; the
  /// residents are then undefined, but after they are set again the Executor is usable.
  StepReport step();
  /// A graph output, after a step and until the next.
  at::Tensor output(TensorId id);
  /// Bytes of the block; for the pool, its current size.
  Bytes block_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowtide::runtime
