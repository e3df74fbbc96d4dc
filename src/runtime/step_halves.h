#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/device.h"
#include "plan/plan.h"
#include "runtime/arena_runner.h"
#include "runtime/away_residents.h"
#include "runtime/recording.h"
#include "runtime/sections.h"
#include "slower/store.h"

namespace lowtide::runtime {

/// Runs the two halves of a step, which meet at the boundary of its graph, in one block: takes the
/// caller's tensors in, runs the actions or submits their recording, and hands tensors out. Which
/// passes wait for their second half is known to its user alone (autograd_executor.h).
class StepHalves {
 public:
  /// `records`: whether a half is recorded in its second run, and submitted as one from then on.
  /// `slower`: for plans that move values, where to. Graph, plan and device must outlive it. Throws
  /// InputError when the graph has no boundary, when an op cannot run as planned, and as
  /// check_recordable() and require_slower_memory().
  StepHalves(const Graph& graph, const Plan& plan, const device::ComputeDevice& device,
             bool records, std::unique_ptr<slower::Store> slower);
  ~StepHalves();
  StepHalves(const StepHalves&) = delete;
  StepHalves& operator=(const StepHalves&) = delete;

  /// Sends those residents away that the plan moves. Throws InputError for one that does not fit.
  void send_away(std::span<const at::Tensor> given);
  /// Null where the plan moves no resident.
  const std::shared_ptr<AwayResidents>& away() const { return away_; }

  /// Begins a step with these residents, and takes the block.
  void begin(std::span<const at::Tensor> given);
  /// `wanted`: what is handed out afterwards.
  void run_first(std::span<const TensorId> wanted);
  void run_second(std::span<const TensorId> wanted);
  /// As in the pass with this ticket: the first half draws the same numbers and has no effects.
  void run_first_again(std::span<const std::int64_t> ticket);
  void run_second_unrecorded();
  /// Of the results, before the second half.
  void take_gradients(std::span<const at::Tensor> given);
  /// Those of the first half, in memory that is not the block's.
  std::vector<at::Tensor> hand_out_results(std::span<const TensorId> wanted) const;
  /// Ends the step.
  std::vector<at::Tensor> hand_out_gradients(std::span<const TensorId> wanted);
  /// Records both halves: runs them with gradients of zero, without effects on the caller's tensors
  /// and the generator.
  void rehearse(std::span<const at::Tensor> given);
  /// Lets go of the caller's tensors.
  void forget_outside();

  /// Before something of the block is released or used otherwise.
  void await_moves() const noexcept;
  /// Gives back the block. Recordings serve again where it comes back.
  void release();
  /// Gives back the states of the generator and, if the plan divides its block, the sections that
  /// hold no tensor of the caller's.
  void release_unused();

  const Graph& graph() const { return graph_; }
  const Plan& plan() const { return plan_; }
  const device::ComputeDevice& device() const { return device_; }
  std::span<const TensorId> residents() const { return residents_; }
  std::span<const TensorId> tangents() const { return graph_.op(boundary_).outputs; }
  bool records() const { return side_.has_value(); }
  const BlockMap& map() const { return map_; }
  const Sections& sections() const { return sections_; }
  /// Precondition: a step has begun since release().
  ArenaRunner& runner() { return *runner_; }
  const StepReport& report() const { return report_; }
  OpId unrecordable_op() const;
  std::int64_t recordings() const { return first_.recordings() + second_.recordings(); }
  /// Since the last step began, or its residents were sent away.
  slower::PlaceCounters moved() const;

 private:
  void take_block();
  void put(TensorId id, const at::Tensor& tensor);
  const at::Tensor& result(TensorId id) const;
  at::Tensor hand_out(TensorId id) const;
  void run(std::size_t from, std::size_t to, Effects effects = Effects::happen);
  void run_half(RecordedHalf& half, std::size_t from, std::size_t to);
  void run_apart(std::size_t from, std::size_t to);
  void record(RecordedHalf& half, std::size_t from, std::size_t to);
  RecordedHalf::Addresses callers_addresses() const;
  void make_views_of(std::span<const TensorId> wanted, std::size_t end);
  std::size_t boundary_run() const { return runner_->program().boundary; }
  std::size_t end_run() const { return runner_->program().runs.size(); }

  const Graph& graph_;
  const Plan& plan_;
  const device::ComputeDevice& device_;
  OpId boundary_;
  std::shared_ptr<slower::Store> store_;  ///< null where nothing moves
  std::vector<TensorId> residents_;
  std::vector<bool> is_away_;  ///< by tensor: whether it is a resident that the plan moves
  std::shared_ptr<AwayResidents> away_;
  slower::PlaceCounters moved_before_;  ///< when the last step began
  BlockMap map_;
  Sections sections_;
  std::unique_ptr<ArenaRunner> runner_;  ///< for the sections' last addresses; null without
  StepReport report_;
  std::optional<device::SideStream> side_;  ///< where halves are recorded; none: they are not
  RecordedHalf first_, second_;
};

}  // namespace lowtide::runtime
