#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/allocation_recorder.h"
#include "device/device.h"
#include "runtime/memory_mode.h"
#include "runtime/program.h"

namespace lowtide::runtime {

/// Whether ops write what they overwrite of the caller's, as they do but once.
enum class Effects : std::uint8_t { happen, left_out };

/// Runs a compiled program in its block: every request of an op gets its planned address, every
/// result ends where the plan has it.
class ArenaRunner {
 public:
  /// What is asked for beyond the profile.
  struct Beyond {
    Bytes reserve_bytes = 0;    ///< of the block, for requests that were not planned
    bool from_system = false;   ///< where that is full: take them from the system, or stop
  };

  /// The graph must outlive the runner. `block` has map.end bytes, which must be there while it
  /// runs.
  ArenaRunner(const Graph& graph, const Plan& plan, BlockMap map, SectionAddresses block,
              Beyond beyond);

  /// The block lies elsewhere now, or some of its sections do; nothing that is needed may lie in
  /// these. Not for a block with residents.
  void move_to(const SectionAddresses& block);
  /// A step begins: its figures start anew.
  void begin();
  /// Executes program().runs[from, to) and waits for the device. The first time that a run is
  /// executed makes the views that later ones use again. `report` gets overruns, and times when
  /// its action_seconds has an entry for each action.
  void run(std::size_t from, std::size_t to, const ResultListener& listener, StepReport& report,
           Effects effects = Effects::happen);
  /// Writes the figures of the runs since begin().
  void finish(StepReport& report) const;
  /// Lets go of the caller's tensors and of the views of them.
  void forget_outside();

  bool in_block(const at::Tensor& tensor) const;

  Program& program() { return *program_; }
  const BlockMap& map() const { return map_; }

 private:
  static bool has_its_views(const Program::Run& run);
  void execute(const Program::Run& run, StepReport& report, Effects effects);
  bool is_laid_out_otherwise(const Program::Run& run, bool withhold_mutated) const;
  void call(const Program::Run& run, bool withhold);
  void settle(const Program::Run& run, StepReport& report);
  void settle(const Program::Run& run, const Program::Output& output, at::Tensor& result,
              StepReport& report);
  void check_elements(const Program::Run& run, const Program::Output& output,
                      const at::Tensor& result) const;
  [[noreturn]] void refuse_copy(const Program::Run& run, const Program::Output& output) const;

  const Graph& graph_;
  const device::ComputeDevice& device_;
  BlockMap map_;
  SectionAddresses block_;
  std::unique_ptr<Program> program_;
  device::AllocationRecorder outside_;
  device::PlannedSource source_;
  std::vector<std::byte> present_state_;
  std::vector<at::Tensor> results_;  ///< of the running op; kept for its memory
};

}  // namespace lowtide::runtime
