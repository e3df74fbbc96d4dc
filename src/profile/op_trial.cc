#include "profile/op_trial.h"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>
#include <unistd.h>

#include <algorithm>

#include "device/allocation_recorder.h"
#include "device/planned_source.h"
#include "device/replayed_draw.h"
#include "device/untouched_generator.h"
#include "layout/layout.h"
#include "profile/synthetic_inputs.h"
#include "profile/trial_times.h"
#include "runtime/kernel.h"
#include "runtime/stopwatch.h"

namespace lowtide::profile {
namespace {

constexpr double kSecondsPerOp = 0.05;  ///< for timing; slower ops get kFewestRuns
/// The same where the host interrupts runs.
constexpr double kSecondsPerInterruptedOp = 0.25;
constexpr int kFewestRuns = 3;
constexpr int kMostRuns = 9;
constexpr Bytes kLargestCache = Bytes{32} << 20;
/// Bytes that other ops access between two runs of an op in a step, relative to the op's own bytes:
/// neighbouring ops have about the same size.
constexpr Bytes kNeighbours = 8;

using Request = device::AllocationRecorder::Request;
using Times = device::WorkTimer::Times;

/// Work of a device between two runs of an op: longer than any host takes to submit one.
constexpr double kBusySeconds = 100e-6;
constexpr std::int64_t kFewestBusyElements = std::int64_t{1} << 16;
constexpr std::int64_t kMostBusyElements = std::int64_t{1} << 30;

/// Adds one element to itself so often, so that the work takes no memory of the budget.
void add_up(std::byte* element, std::int64_t times, c10::Device device) {
  at::for_blob(element, {1})
      .options(at::TensorOptions().dtype(at::kFloat).device(device))
      .target_device(device)
      .make_tensor()
      .expand({times})
      .sum();
}

/// The request that became the storage of the result; -1 when there is none or it is larger than
/// the graph's tensor.
int storage_request(const std::vector<Request>& requests, const at::Tensor& result, Bytes bytes) {
  const auto found = std::find_if(requests.rbegin(), requests.rend(), [&](const Request& request) {
    return request.data == result.storage().data();
  });
  if (found == requests.rend() || found->bytes > bytes) return -1;
  return static_cast<int>(requests.rend() - found) - 1;
}

/// Assigns requests to outputs, and the others to offsets in the workspace.
cost::OpProfile assign(const Graph& graph, const Op& op, const std::vector<Request>& requests,
                       const std::vector<at::Tensor>& results, Bytes alignment) {
  cost::OpProfile profile;
  for (const Request& request : requests) profile.allocations.push_back({request.bytes});
  for (std::size_t i = 0; i < results.size() && i < op.outputs.size(); ++i) {
    const Tensor& tensor = graph.tensor(op.outputs[i]);
    const auto elements = static_cast<Bytes>(results[i].nbytes());
    const int request =
        tensor.alias_of == kNone && results[i].numel() > 0
            ? storage_request(requests, results[i], std::max(tensor.bytes, elements))
            : -1;
    if (request >= 0)
      profile.allocations[static_cast<std::size_t>(request)].output = static_cast<int>(i);
  }
  std::vector<packing::Buffer> scratch;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (profile.allocations[i].output == -1) {
      scratch.push_back({requests[i].begin, requests[i].end, requests[i].bytes});
    }
  }
  const packing::Packing packing = packing::pack(scratch, alignment);
  profile.workspace_bytes = packing.height;
  auto offset = packing.offsets.begin();
  for (Allocation& allocation : profile.allocations) {
    if (allocation.output == -1) allocation.offset = *offset++;
  }
  return profile;
}

/// Whether to run an op once more after these runs, which took so long in all.
bool wants_more(const std::vector<TrialRun>& runs, double seconds) {
  const int all = static_cast<int>(runs.size());
  if (all < kFewestRuns) return true;
  if (count_uninterrupted(runs) < kFewestRuns) return seconds < kSecondsPerInterruptedOp;
  return all < kMostRuns && seconds < kSecondsPerOp;
}

/// Trials of one op on its inputs, in the memory of `room`.
class Trial {
 public:
  Trial(const Graph& graph, OpId id, const device::ComputeDevice& device, TrialMemory& room)
      : graph_(graph),
        op_(graph.op(id)),
        device_(device),
        room_(room),
        kernel_(op_, device.torch_device()),
        inputs_(synthetic_inputs(graph, op_,
                                 room.take_inputs(synthetic_bytes(graph, op_, device.alignment())),
                                 device)) {}

  cost::OpProfile run() {
    record();  // the first call may do one-time setup
    auto [profile, times] = record();
    if (times.work_seconds < kLongSeconds) times = time(plan(profile));
    profile.microseconds = times.work_seconds * 1e6;
    profile.launch_microseconds = times.launch_seconds * 1e6;
    return profile;
  }

 private:
  struct Recorded {
    cost::OpProfile profile;  ///< but for the times
    Times times;
  };

  Recorded record() {
    device::AllocationRecorder recorder(device_.system());
    device::AllocationRecorder unordered(device_.system());
    const std::unique_ptr<device::WorkTimer> timer = device_.work_timer();
    const auto service = device_.serve(recorder, unordered);
    timer->start();
    const std::vector<at::Tensor> results = kernel_.run(inputs_);
    timer->stop();
    device_.synchronize();
    return {assign(graph_, op_, recorder.requests(), results, device_.alignment()), timer->times()};
  }

  /// Addresses: first all outputs, then the workspace.
  std::vector<device::Slot> plan(const cost::OpProfile& profile) {
    Bytes end = 0;
    std::vector<Bytes> outputs(op_.outputs.size());
    for (const Allocation& a : profile.allocations) {
      if (a.output == -1) continue;
      outputs[static_cast<std::size_t>(a.output)] = end;
      end += align_up(a.bytes, device_.alignment());
    }
    std::byte* const base = room_.take_rest(end + profile.workspace_bytes);
    all_bytes_ = synthetic_bytes(graph_, op_, device_.alignment()) + end + profile.workspace_bytes;
    std::vector<device::Slot> slots;
    for (const Allocation& a : profile.allocations) {
      const Bytes begin =
          a.output == -1 ? end + a.offset : outputs[static_cast<std::size_t>(a.output)];
      slots.push_back({base + begin, a.bytes});
    }
    return slots;
  }

  Times time(const std::vector<device::Slot>& slots) {
    device::PlannedSource source({});
    device::AllocationRecorder unordered(device_.system());
    std::vector<const at::Tensor*> inputs;
    for (const at::Tensor& input : inputs_) inputs.push_back(&input);
    std::vector<at::Tensor> results;
    const std::unique_ptr<device::WorkTimer> timer = device_.work_timer();
    const auto once = [&] {
      const auto service = device_.serve(source, unordered);
      source.begin(slots);
      timer->start();
      kernel_.run(inputs, false, results);
      timer->stop();
      return timer->times();
    };
    once();  // touches the pages of outputs and workspace
    const runtime::Stopwatch all;
    std::vector<TrialRun> runs;
    while (wants_more(runs, all.seconds())) {
      room_.disturb(kNeighbours * all_bytes_);
      const long before = interruptions();
      const Times times = once();
      runs.push_back({times, interruptions() != before});
    }
    return usual_times(runs);
  }

  const Graph& graph_;
  const Op& op_;
  const device::ComputeDevice& device_;
  TrialMemory& room_;
  runtime::Kernel kernel_;
  std::vector<at::Tensor> inputs_;
  Bytes all_bytes_ = 0;  ///< of all memory of the op
};

}  // namespace

namespace {

/// Size of the last cache, or kLargestCache if unknown.
std::size_t cache_bytes() {
  const Bytes cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return static_cast<std::size_t>(cache > 0 ? std::min(cache, kLargestCache) : kLargestCache);
}

}  // namespace

TrialMemory::TrialMemory(const device::ComputeDevice& device)
    : device_(device), other_(device.is_host_memory() ? cache_bytes() : 0) {
  if (!device.is_host_memory()) find_work();
}

void TrialMemory::find_work() {
  const std::unique_ptr<device::WorkTimer> timer = device_.work_timer();
  std::byte* const element = take(work_, sizeof(float));
  busy_elements_ = kFewestBusyElements;
  add_up(element, busy_elements_, device_.torch_device());  // loads the kernel
  for (; busy_elements_ < kMostBusyElements; busy_elements_ *= 2) {
    timer->start();
    add_up(element, busy_elements_, device_.torch_device());
    timer->stop();
    if (timer->times().work_seconds >= kBusySeconds) return;
  }
}

std::byte* TrialMemory::take(Room& room, Bytes bytes) {
  if (bytes > room.bytes || room.memory == nullptr) {
    room.memory.reset();
    room.bytes = std::max<Bytes>(bytes, 1);
    room.memory = device_.allocate_block(room.bytes);
  }
  return room.memory.get();
}

void TrialMemory::disturb(Bytes bytes) {
  if (busy_elements_ > 0) add_up(work_.memory.get(), busy_elements_, device_.torch_device());
  const std::size_t end = std::min(other_.size(), static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < end; i += kArenaAlignment) other_[i] ^= std::byte{1};
}

cost::OpProfile try_op(const Graph& graph, OpId id, const device::ComputeDevice& device,
                       TrialMemory& room) {
  const device::UntouchedGenerator untouched(device);
  return Trial(graph, id, device, room).run();
}

}  // namespace lowtide::profile
