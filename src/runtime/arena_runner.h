#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/allocation_recorder.h"
#include "device/device.h"
#include "runtime/memory_mode.h"
#include "runtime/mover.h"
#include "runtime/program.h"

namespace lowtide::runtime {

/// Whether side effects on the caller's tensors happen (first run) or are left out (replay).
enum class Effects : std::uint8_t { happen, left_out };

/// Runs a compiled program in its block: every request of an op gets its planned address, every
/// result lies at its planned address.
class ArenaRunner {
 public:
  /// The source of requests beyond the profile.
  struct Beyond {
    Bytes reserve_bytes = 0;   ///< of the block, for unplanned requests
    bool from_system = false;  ///< when that is full: use the system, or stop
  };

  /// Graph, device and slower memory (mover.h: require_slower_memory) must outlive the runner.
  /// `block` has map.end bytes of the device, which must be allocated while it runs.
  ArenaRunner(const Graph& graph, const Plan& plan, const device::ComputeDevice& device,
              BlockMap map, SectionAddresses block, Beyond beyond, slower::Store* slower = nullptr);

  /// The block or some of its sections have new addresses. Precondition: no needed data in these,
  /// and no residents in the block.
  void move_to(const SectionAddresses& block);
  /// Begins a step: resets its statistics.
  void begin();
  /// Executes program().runs[from, to) and waits for the device. The first execution of a run makes
  /// views that later ones reuse. Writes overruns to `report`, and times if its action_seconds has
  /// an entry for each action.
  void run(std::size_t from, std::size_t to, const ResultListener& listener, StepReport& report,
           Effects effects = Effects::happen);
  /// The same without waiting.
  void submit(std::size_t from, std::size_t to, const ResultListener& listener, StepReport& report,
              Effects effects = Effects::happen);
  /// Of those runs, executes again the ones that make views of the caller's tensors.
  void make_outside_views(std::size_t from, std::size_t to, StepReport& report);
  /// Ends the copies that are under way, so that the block may be released or used otherwise.
  void await_moves() noexcept { mover_.await_all(); }
  /// Writes the statistics of the runs since begin().
  void finish(StepReport& report) const;
  /// The entries of the caller's tensors and of their views, then of numbers that ops left on the
  /// host, in an order that stays; an op that runs for the first time may add numbers at the end.
  std::vector<at::Tensor*> tensors_outside();
  /// Releases those tensors.
  void forget_outside();

  bool in_block(const at::Tensor& tensor) const;
  bool lies_at(const SectionAddresses& block) const { return block == block_; }
  /// The op of the last run that was begun.
  OpId last_op() const { return last_op_; }

  Program& program() { return *program_; }
  const BlockMap& map() const { return map_; }

 private:
  void move_before(std::size_t run, StepReport& report);
  void move_until(std::size_t end, StepReport& report);
  void perform(const Program::Move& move);
  at::Tensor returning(const Program::Move& move) const;
  static bool has_its_views(const Program::Run& run);
  void execute(const Program::Run& run, StepReport& report, Effects effects);
  bool is_laid_out_otherwise(const Program::Run& run, bool withhold_mutated) const;
  void call(const Program::Run& run, bool withhold);
  void settle(const Program::Run& run, StepReport& report);
  void settle(const Program::Run& run, const Program::Output& output, at::Tensor& result,
              StepReport& report);
  void keep_on_host(const Program::Output& output, at::Tensor number);
  void check_elements(const Program::Run& run, const Program::Output& output,
                      const at::Tensor& result) const;
  void require_layout_of_base(const Program::Run& run, const Program::Output& output) const;
  bool was_on_host(const Program::Output& output) const;
  void require_as_before(const Program::Run& run, const Program::Output& output) const;
  void require_on_device(const Program::Run& run, const at::Tensor& result) const;
  [[noreturn]] void refuse_copy(const Program::Run& run, const Program::Output& output) const;

  const Graph& graph_;
  const device::ComputeDevice& device_;
  BlockMap map_;
  SectionAddresses block_;
  std::unique_ptr<Program> program_;
  device::AllocationRecorder outside_;
  device::PlannedSource source_;
  std::vector<std::byte> present_state_;
  OpId last_op_ = kNone;
  Mover mover_;
  std::size_t next_move_ = 0;
  Bytes highest_move_ = 0;           ///< the highest end of a value that came back in this step
  slower::Counters moved_before_;    ///< when the step began
  std::vector<at::Tensor> results_;  ///< of the running op; kept for its memory
  /// The outputs that ops left on the host, each once.
  std::vector<const Program::Output*> numbers_on_host_;
};

}  // namespace lowtide::runtime
