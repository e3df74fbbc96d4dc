#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "plan/plan.h"
#include "slower/store.h"

namespace lowtide::runtime {

/// Runs the plan of a graph with a boundary in two halves, as autograd calls them: forward() runs
/// the actions before the boundary, backward() the rest. Residents stay in the caller's memory.
/// Values and workspaces have the layout's addresses in one block of the framework's own allocator,
/// or in one for each section of the layout; states of the generator are in one of their own. The
/// first forward() allocates them, release() frees them.
///
/// Results of forward() have their own memory (they are foreign: graph/boundary.h), so that a kept
/// loss holds no other memory. Gradients stay in the block and hold it: while one of them lives,
/// the executor is not idle, and must not begin again.
///
/// If the graph counts results that the caller drops (graph/handed_out.h), backward()
/// allocates the section that replaces them. If the caller still holds them, both exist at the
/// same time.
///
/// A pending pass is a forward() whose backward() is still to come. Its ticket and the residents
/// suffice to run it again: so a pending pass may be dropped, or used more than once.
///
/// A pending pass may be set aside: copies of the values that its backward half reads lie in one
/// allocation of their own, and the block is free for another pass. So several passes wait in less
/// memory than a block each.
///
/// Values that the plan moves go to the store and come back while ops run, also while the caller's
/// code runs between the halves. A copy that fails is an Error of the half that waits for it, and
/// names the value; a later step begins anew.
///
/// Residents that the plan moves are the caller's tensors: send_away() copies their bytes to the
/// store before a pass and gives their memory back, bring_back() undoes that (away_residents.h).
/// They come back by themselves where the ticket dies without a backward pass.
///
/// With Launch::as_one, each half is recorded in its second run and submitted as one from then on
/// (device/graph.h). What the caller has at other addresses in each step is copied to and from
/// fixed places in the block: inputs, gradients of results, and results, which get their own memory
/// outside. Where the block or another resident has moved, the halves are recorded again.
///
/// Results equal those of keep-all bit for bit, as with Executor. Not thread-safe.
class AutogradExecutor {
 public:
  /// How the device gets the ops of a half: one by one, or as one recording of them.
  enum class Launch : std::uint8_t { one_by_one, as_one };

  /// `graph` must be executable and profiled, `plan` verified and laid out; both, and the device,
  /// must outlive the executor. Throws InputError when the graph has no boundary or an op cannot
  /// run as planned; with Launch::as_one also when the device cannot record, when results are
  /// counted as dropped, when the plan moves values, and when it runs a random op again, for which
  /// the generator's state would have to be set within a recording. `slower`: for plans that move
  /// values, where to; throws as require_slower_memory() (mover.h).
  AutogradExecutor(const Graph& graph, const Plan& plan,
                   const device::ComputeDevice& device = device::cpu_device(),
                   Launch launch = Launch::one_by_one,
                   std::unique_ptr<slower::Store> slower = nullptr);
  ~AutogradExecutor();
  AutogradExecutor(const AutogradExecutor&) = delete;
  AutogradExecutor& operator=(const AutogradExecutor&) = delete;

  /// The storages that the caller passes to forward(), in this order, and those of the gradients
  /// that it passes to backward().
  std::span<const TensorId> residents() const;
  std::span<const TensorId> tangents() const;

  struct Forward {
    std::vector<at::Tensor> results;  ///< the `wanted` tensors, in order
    /// ticket_size() numbers: a number unique to this forward() in the process, then the state of
    /// the device's random generator at its start. Until this tensor dies or backward() runs, the
    /// values in the block are needed, so the executor is not idle.
    at::Tensor ticket;
  };
  /// Before forward() or replay() with the same residents, where the plan moves some. Throws
  /// InputError that names one that does not fit, or whose memory is not its own; Error where a
  /// copy fails; std::logic_error when not idle. Precondition: no executor has any of them away.
  void send_away(std::span<const at::Tensor> residents);
  /// All that were sent away are in the caller's memory again. Throws Error that names one whose
  /// copy fails.
  void bring_back();
  /// What the residents take less meanwhile.
  Bytes away_bytes() const;

  /// The first half. `residents` as residents() says, of the graph's dtypes and shapes, on the
  /// device. Throws
  /// InputError that names a tensor that does not fit, Error that names the op that fails;
  /// std::logic_error when not idle.
  Forward forward(std::span<const at::Tensor> residents, std::span<const TensorId> wanted);
  /// The second half, once for each forward(). Throws as forward().
  std::vector<at::Tensor> backward(std::span<const at::Tensor> tangents,
                                   std::span<const TensorId> wanted);
  /// Both halves for the ticket of a forward(), also of another executor for the same graph. The
  /// first half draws the same random numbers as forward() and has no effects; residents that an op
  /// would write may have any content. Throws as forward().
  std::vector<at::Tensor> replay(const at::Tensor& ticket, std::span<const at::Tensor> residents,
                                 std::span<const at::Tensor> tangents,
                                 std::span<const TensorId> wanted);
  static std::int64_t ticket_size(const device::ComputeDevice& device = device::cpu_device());

  /// With Launch::as_one: runs both halves without effects on the caller's tensors and the
  /// generator, with gradients of zero, and records them. So what cannot be recorded is known
  /// before a step. Throws as forward(); std::logic_error when not idle. Precondition: the first
  /// half may run again, as for replay().
  void rehearse(std::span<const at::Tensor> residents);
  /// The op at which a recording failed since the step began; kNone when none did.
  OpId unrecordable_op() const;
  /// How often a half was recorded so far.
  std::int64_t recordings() const;

  /// The storages of results that the caller still held when the last backward() began.
  const std::vector<TensorId>& held_results() const;

  /// Whether no result lives and no pass is pending, so that forward() may run.
  bool idle() const;
  /// The number of the pending pass; 0 for none. Later passes have higher numbers.
  std::int64_t pending_pass() const;
  /// Whether the ticket belongs to the pending pass.
  bool is_pending(const at::Tensor& ticket) const;
  /// Copies what the backward half of the pending pass needs of the block to memory of its own,
  /// aside_bytes(); the executor is idle then, unless a result lives in the block. Throws
  /// InputError where the plan moves values, has sections or is submitted as one recording;
  /// std::logic_error without a pending pass.
  void set_aside();
  /// Makes the pass that was set aside with this ticket the pending one again. A pass that is
  /// pending takes its place, byte by byte, so that no more memory is needed; else its copies are
  /// released. Throws InputError where no pass has the ticket; std::logic_error while a result
  /// lives in the block.
  void resume(const at::Tensor& ticket);
  /// What a pass that is set aside takes, beside tensors of the caller's.
  Bytes aside_bytes() const;
  /// How many passes are set aside. While there are some, release() throws std::logic_error.
  std::int64_t passes_aside() const;
  /// Drops the pending pass: its values are no longer needed.
  void discard();
  /// Whether the tensor lies in the held block.
  bool contains(const at::Tensor& tensor) const;
  /// Releases the block; the next forward() allocates another. Returned tensors stay valid.
  void release();
  /// Unless a pass is pending or aside: releases the states of the generator and, if the plan
  /// divides its block, the sections without live returned tensors. The next forward() allocates
  /// them again.
  void release_unused();

  Bytes block_bytes() const;  ///< needed by a step
  /// Of the block, what holds states of the random generator, for ops that run again.
  Bytes generator_state_bytes() const;
  Bytes held_bytes() const;  ///< allocated now
  /// Of the last step: the highest byte of the block in use. Other memory of ops, including results
  /// for the caller, comes from the framework and is counted in device/allocation.h.
  Bytes used_bytes() const;
  /// Since the last step began, or its residents were sent away: what moved to slower memory and
  /// back, and what was waited for that, by place.
  slower::PlaceCounters moved() const;
  /// One line for each op of the last step that requested more than profiled.
  const std::vector<std::string>& overruns() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowtide::runtime
