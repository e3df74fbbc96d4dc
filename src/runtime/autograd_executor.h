#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lowtide::runtime {

/// Runs the plan of a graph with a boundary in two halves, as autograd calls them: what the plan
/// has before the boundary in forward(), the rest in backward(). Residents stay in the caller's
/// memory; values and workspaces lie where the layout puts them, in one block of the framework's
/// own allocator, or in one for each section of the layout. They are taken by the first forward()
/// and given back by release().
///
/// Results of forward() lie in memory of their own (they are foreign: graph/boundary.h), so that a
/// loss that somebody keeps holds nothing else. Gradients are handed out where they lie, and hold
/// the block: as long as one of them lives, the executor is not idle, and must not begin again.
///
/// Where the graph counts results that the caller drops (graph/handed_out.h), a section of the block
/// is taken only by backward(), in the place of these. If the caller holds them still, both are
/// there at the same time.
///
/// A flight is a forward() whose backward() is to come. Its ticket says all that is needed, beside
/// the residents, to fly it again: so a flight may be given up, and used more than once.
///
/// Bit for bit what keep-all computes, as Executor. Not thread-safe.
class AutogradExecutor {
 public:
  /// `graph` must be executable and profiled, `plan` verified and laid out; both must outlive the
  /// executor. Throws InputError when the graph has no boundary, or an op cannot run as planned.
  AutogradExecutor(const Graph& graph, const Plan& plan);
  ~AutogradExecutor();
  AutogradExecutor(const AutogradExecutor&) = delete;
  AutogradExecutor& operator=(const AutogradExecutor&) = delete;

  /// Storages that the caller gives in forward(), in this order, and those of the gradients that
  /// it gives in backward().
  std::span<const TensorId> residents() const;
  std::span<const TensorId> tangents() const;

  struct Forward {
    std::vector<at::Tensor> results;  ///< the `wanted` tensors, in order
    /// ticket_size() numbers: one that is unlike that of any other forward() in the process, and
    /// the state that the random generator had. While this tensor lives and backward() was not
    /// run, the values in the block are needed: not idle.
    at::Tensor ticket;
  };
  /// The first half. `residents` as residents() says, of the graph's dtypes and shapes. Throws
  /// InputError that names a tensor that does not fit, Error that names the op that fails;
  /// std::logic_error when not idle.
  Forward forward(std::span<const at::Tensor> residents, std::span<const TensorId> wanted);
  /// The second half, once for each forward(). Throws as forward().
  std::vector<at::Tensor> backward(std::span<const at::Tensor> tangents,
                                   std::span<const TensorId> wanted);
  /// Both halves for the ticket of a forward(), maybe another executor's for the same graph. The
  /// first draws the numbers that forward() drew and has no effects: residents that the op would
  /// write may hold anything. Throws as forward().
  std::vector<at::Tensor> again(const at::Tensor& ticket, std::span<const at::Tensor> residents,
                                std::span<const at::Tensor> tangents,
                                std::span<const TensorId> wanted);
  static std::int64_t ticket_size();

  /// Of the last flight: the storages of results that the caller still held when backward() began.
  const std::vector<TensorId>& held_results() const;

  /// Whether no result lives and no backward() is to come, so that forward() may run.
  bool idle() const;
  /// The number of the flight; 0 for none. Later ones have higher numbers.
  std::int64_t awaited() const;
  /// Whether the flight is that of the ticket.
  bool awaits(const at::Tensor& ticket) const;
  /// Gives the flight up: what it holds is not needed any more.
  void give_up();
  /// Whether the tensor lies in the block that is held.
  bool contains(const at::Tensor& tensor) const;
  /// Gives the block back; the next forward() takes another. What was handed out stays valid.
  void release();
  /// Gives back the sections of the block in which nothing lies that was handed out and lives,
  /// unless a backward() is to come; the next forward() takes them again.
  void release_unused();

  Bytes block_bytes() const;  ///< that a step takes
  Bytes held_bytes() const;   ///< that are taken now
  /// Of the last step: the highest byte of the block in use. What ops took beyond it, results for
  /// the caller among it, is the framework's memory, counted in device/allocation.h.
  Bytes used_bytes() const;
  /// One line for each op of the last step that asked for more than was profiled.
  const std::vector<std::string>& overruns() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowtide::runtime
