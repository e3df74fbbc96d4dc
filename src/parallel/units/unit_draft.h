#pragma once

#include <string>
#include <vector>

#include "cost/device_rates.h"
#include "graph/graph.h"

namespace lowtide::parallel {

/// Whether the op is a collective operation of tensor-parallel ranks.
bool is_collective(const Op& op);

/// Drafts the graph of a unit by the bytes of its values and the work of its ops.
class UnitDraft {
 public:
  UnitDraft(std::string name, DType compute, const cost::DeviceRates& device);

  TensorId value(const std::string& name, Bytes bytes);
  /// Ops appended from now on belong to this phase.
  void set_phase(Phase phase) { phase_ = phase; }
  /// A value that comes from another unit: no plan can make it again.
  TensorId receive(const std::string& name, Bytes bytes);
  /// Hands a value on to another unit.
  void send(TensorId value);
  /// An op that costs its arithmetic or its traffic (cost/roofline.h); `extra_traffic` is that of
  /// weights. The first output may be written over the input at position `over`, if any.
  void run(const std::string& name, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
           double flops = 0, double extra_traffic = 0, int over = -1);
  /// A collective operation, which takes that time.
  void communicate(const std::string& name, TensorId input, TensorId output, double seconds,
                   bool in_place);

  Bytes bytes(TensorId id) const { return data_.tensors[static_cast<std::size_t>(id)].bytes; }
  Graph build() const;

 private:
  Op& append(const std::string& name, std::vector<TensorId> inputs, std::vector<TensorId> outputs);

  GraphData data_;
  DType compute_;
  const cost::DeviceRates& device_;
  Phase phase_ = Phase::forward;
  TensorId outbox_;  ///< that sends write
};

}  // namespace lowtide::parallel
