#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "device/device.h"
#include "device/graph.h"
#include "runtime/arena_runner.h"

namespace lowtide::runtime {

/// Throws InputError that says why, where the halves of a step cannot be recorded: the device
/// cannot record, results are counted as dropped, values move to slower memory, or a random op runs
/// again, for which the generator's state would have to be set within a recording.
void check_recordable(const Graph& graph, const Plan& plan, const BlockMap& map,
                      const device::ComputeDevice& device);

/// A half of a step that is submitted as one.
class RecordedHalf {
 public:
  using Addresses = std::vector<const void*>;

  /// Records the runs [from, to) on the stream and does none of them. `addresses` are those of the
  /// caller's tensors that they use. The runs must have been executed on this stream before, so
  /// that their kernels are loaded. Throws Error when something cannot be recorded.
  void record(ArenaRunner& runner, const device::ComputeDevice& device,
              const device::SideStream& stream, std::size_t from, std::size_t to,
              Addresses addresses);
  /// Forgets what was recorded.
  void reset() { work_.reset(); }
  /// Whether it is recorded for these addresses.
  bool is_for(const Addresses& addresses) const {
    return work_ != nullptr && addresses_ == addresses;
  }
  /// Does all of it, and waits for it. Returns what was noted when it was recorded.
  const StepReport& submit(const device::ComputeDevice& device) const;

  /// Whether the half was executed run by run, as record() needs it.
  bool has_run = false;
  /// The op at which a record() failed since forget_refusal(); kNone for none.
  OpId refused_op() const { return refused_op_; }
  void forget_refusal() { refused_op_ = kNone; }
  std::int64_t recordings() const { return recordings_; }

 private:
  std::unique_ptr<device::RecordedWork> work_;
  Addresses addresses_;
  StepReport report_;
  OpId refused_op_ = kNone;
  std::int64_t recordings_ = 0;
};

/// Copies of tensors in memory of their own; tensors that share a storage share its copy.
class StorageCopies {
 public:
  at::Tensor copy_of(const at::Tensor& value);

 private:
  const at::Tensor& bytes_of(const c10::Storage& storage);

  std::map<const void*, at::Tensor> copies_;  ///< by address
};

}  // namespace lowtide::runtime
