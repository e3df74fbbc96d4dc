#include "runtime/recording.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace lowtide::runtime {

void check_recordable(const Graph& graph, const Plan& plan, const BlockMap& map,
                      const device::ComputeDevice& device) {
  const std::string why = device::why_no_graphs(device.torch_device());
  if (!why.empty()) throw InputError(fmt::format("a step cannot be recorded: {}", why));
  if (map.late_begin < map.late_end) {
    throw InputError("a step whose results are counted as dropped cannot be recorded");
  }
  if (const TensorId moved = first_moved(plan); moved != kNone) {
    throw InputError(fmt::format("the plan moves \"{}\" to slower memory, which a recording cannot "
                                 "hold; plan without it",
                                 graph.tensor(moved).name));
  }
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    if (map.generator_states[static_cast<std::size_t>(id)] < 0) continue;
    throw InputError(fmt::format("op \"{}\" ({}) draws random numbers and the plan runs it again, "
                                 "which a recording cannot hold; plan a graph with random ops kept",
                                 graph.op(id).name, graph.op(id).type));
  }
}

void RecordedHalf::record(ArenaRunner& runner, const device::ComputeDevice& device,
                          const device::SideStream& stream, std::size_t from, std::size_t to,
                          Addresses addresses) {
  work_.reset();
  report_ = {};
  device.synchronize();
  stream.run_apart([&] {
    work_ = std::make_unique<device::RecordedWork>(device.torch_device(), [&] {
      try {
        runner.submit(from, to, {}, report_);
      } catch (const Error&) {
        refused_op_ = runner.last_op();
        throw;
      }
    });
  });
  runner.finish(report_);
  addresses_ = std::move(addresses);
  ++recordings_;
}

const StepReport& RecordedHalf::submit(const device::ComputeDevice& device) const {
  work_->submit();
  device.synchronize();
  return report_;
}

at::Tensor StorageCopies::copy_of(const at::Tensor& value) {
  const at::Tensor& bytes = bytes_of(value.storage());
  at::Tensor copy = at::empty({0}, value.options());
  copy.set_(bytes.storage(), value.storage_offset(), value.sizes(), value.strides());
  copy._set_conj(value.is_conj());
  copy._set_neg(value.is_neg());
  return copy;
}

const at::Tensor& StorageCopies::bytes_of(const c10::Storage& storage) {
  at::Tensor& copy = copies_[storage.data()];
  if (!copy.defined()) {
    const at::Tensor source = at::empty({0}, at::TensorOptions(at::kByte).device(storage.device()));
    source.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
    source.unsafeGetTensorImpl()->set_sizes_contiguous(
        {static_cast<std::int64_t>(storage.nbytes())});
    copy = source.clone();
  }
  return copy;
}

}  // namespace lowtide::runtime
