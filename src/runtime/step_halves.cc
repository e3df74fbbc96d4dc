#include "runtime/step_halves.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "device/replayed_draw.h"
#include "device/untouched_generator.h"
#include "graph/boundary.h"
#include "plan/residents.h"
#include "runtime/tensors.h"

namespace lowtide::runtime {
namespace {

std::vector<TensorId> storages(const Graph& graph, Kind kind) {
  std::vector<TensorId> ids;
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.kind == kind && tensor.alias_of == kNone) ids.push_back(id);
  }
  return ids;
}

OpId boundary_of(const Graph& graph) {
  const OpId boundary = find_boundary(graph);
  if (boundary != kNone) return boundary;
  throw InputError(fmt::format("graph \"{}\" has no boundary, so it is no forward and backward "
                               "pass; run it as one step",
                               graph.name()));
}

void check_fits(const Tensor& expected, const at::Tensor& given, c10::Device device) {
  if (given.device() != device) {
    throw InputError(fmt::format("\"{}\" lies on {}, but the plan was made for {}; move it there",
                                 expected.name, given.device().str(), device.str()));
  }
  if (given.scalar_type() == scalar_type(expected.dtype.value()) &&
      given.sizes() == at::IntArrayRef(expected.shape)) {
    return;
  }
  throw InputError(fmt::format("\"{}\" is {} of shape {}, but the plan was made for another dtype "
                               "or shape; plan again for this one",
                               expected.name, c10::toString(given.scalar_type()),
                               fmt::join(given.sizes(), "x")));
}

/// Kernels are already called below autograd; autocast and active Python modes must not change
/// their results either.
const c10::DispatchKeySet kLeftOut =
    c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});

}  // namespace

StepHalves::StepHalves(const Graph& graph, const Plan& plan, const device::ComputeDevice& device,
                       bool records, std::unique_ptr<slower::Store> slower)
    : graph_(graph),
      plan_(plan),
      device_(device),
      boundary_(boundary_of(graph)),
      store_(std::move(slower)),
      residents_(storages(graph, Kind::resident)),
      is_away_(residents_away(graph, plan)),
      map_(map_arena(graph, plan, GeneratorStates::of(device),
                     records ? Places::fixed : Places::none)),
      sections_(map_, device) {
  require_slower_memory(graph, plan, device, store_.get());
  const bool moves_residents = plan.slower && !plan.slower->residents.empty();
  if (moves_residents) away_ = std::make_shared<AwayResidents>(store_);
  if (!records) return;
  check_recordable(graph, plan, map_, device);
  side_.emplace(device.torch_device());
}

StepHalves::~StepHalves() {
  if (away_ != nullptr) away_->try_to_bring_back();
}

void StepHalves::take_block() {
  sections_.take();
  const SectionAddresses block = sections_.addresses();
  if (side_ && runner_ != nullptr && !runner_->lies_at(block)) {
    runner_.reset();
    first_.reset();
    second_.reset();
  }
  if (runner_ != nullptr) return runner_->move_to(block);
  runner_ = std::make_unique<ArenaRunner>(graph_, plan_, device_, map_, block,
                                          ArenaRunner::Beyond{.from_system = true}, store_.get());
}

void StepHalves::put(TensorId id, const at::Tensor& tensor) {
  check_fits(graph_.tensor(id), tensor, device_.torch_device());
  if (is_away_[static_cast<std::size_t>(id)]) return;
  if (at::Tensor* const outside = runner_->program().outside[static_cast<std::size_t>(id)]) {
    *outside = tensor.tensor_data();
  } else {
    runner_->program().placed[static_cast<std::size_t>(id)]->copy_(tensor.tensor_data());
  }
}

void StepHalves::await_moves() const noexcept {
  if (runner_ != nullptr) runner_->await_moves();
}

void StepHalves::send_away(std::span<const at::Tensor> given) {
  if (away_ == nullptr) return;
  moved_before_ = store_->counters_of_places();
  std::vector<AwayResidents::Resident> sent;
  for (std::size_t i = 0; i < residents_.size(); ++i) {
    const TensorId id = residents_[i];
    if (!is_away_[static_cast<std::size_t>(id)]) continue;
    const Tensor& tensor = graph_.tensor(id);
    check_fits(tensor, given[i], device_.torch_device());
    if (!lies_as(tensor, given[i])) {
      throw InputError(fmt::format("\"{}\" lies in another layout than when the plan was made, so "
                                   "that it cannot move to slower memory; plan again",
                                   tensor.name));
    }
    const Bytes offset = std::ranges::find(plan_.slower->copies, id, &Copy::storage)->offset;
    sent.push_back({given[i], offset, tensor.name});
  }
  away_->send(sent);
}

void StepHalves::begin(std::span<const at::Tensor> given) {
  if (away_ != nullptr && away_->bytes() == 0) {
    throw std::logic_error("a pass without send_away() before it");
  }
  if (away_ == nullptr && store_ != nullptr) moved_before_ = store_->counters_of_places();
  await_moves();
  sections_.give_back_late();
  take_block();
  report_ = {};
  first_.forget_refusal();
  second_.forget_refusal();
  for (std::size_t i = 0; i < residents_.size(); ++i) put(residents_[i], given[i]);
  runner_->begin();
}

void StepHalves::run(std::size_t from, std::size_t to, Effects effects) {
  const c10::impl::ExcludeDispatchKeyGuard guard(kLeftOut);
  runner_->run(from, to, {}, report_, effects);
  runner_->finish(report_);
}

void StepHalves::run_first(std::span<const TensorId> wanted) {
  run_half(first_, 0, boundary_run());
  make_views_of(wanted, boundary_run());
}

void StepHalves::run_second(std::span<const TensorId> wanted) {
  // A first half that was submitted as one has made no views of the caller's tensors.
  if (side_ && !second_.is_for(callers_addresses())) {
    runner_->make_outside_views(0, boundary_run(), report_);
  }
  run_half(second_, boundary_run(), end_run());
  make_views_of(wanted, end_run());
}

/// As run(), or as one where halves are recorded.
void StepHalves::run_half(RecordedHalf& half, std::size_t from, std::size_t to) {
  if (!side_) return run(from, to);
  if (!half.has_run) {
    side_->run([&] { run(from, to); });
    half.has_run = true;
    return;
  }
  if (!half.is_for(callers_addresses())) record(half, from, to);
  report_ = half.submit(device_);
}

void StepHalves::run_first_again(std::span<const std::int64_t> ticket) {
  std::vector<std::byte> present(static_cast<std::size_t>(device_.generator_state_bytes()));
  const device::ReplayedDraw draw(device_, reinterpret_cast<const std::byte*>(&ticket[1]),
                                  present.data());
  run(0, boundary_run(), Effects::left_out);
}

void StepHalves::run_second_unrecorded() { run(boundary_run(), end_run()); }

void StepHalves::record(RecordedHalf& half, std::size_t from, std::size_t to) {
  const c10::impl::ExcludeDispatchKeyGuard guard(kLeftOut);
  half.record(*runner_, device_, *side_, from, to, callers_addresses());
}

/// Without effects on the caller's tensors and the generator, where halves are recorded.
void StepHalves::run_apart(std::size_t from, std::size_t to) {
  const device::UntouchedGenerator untouched(device_);
  side_->run([&] { run(from, to, Effects::left_out); });
}

void StepHalves::rehearse(std::span<const at::Tensor> given) {
  begin(given);
  for (TensorId id : tangents()) {
    const auto index = static_cast<std::size_t>(id);
    if (at::Tensor* const empty = runner_->program().outside[index]) {
      *empty = tensor_over(nullptr, graph_.tensor(id), device_.torch_device());
    } else {
      runner_->program().placed[index]->zero_();
    }
  }
  run_apart(0, boundary_run());
  run_apart(boundary_run(), end_run());
  first_.has_run = second_.has_run = true;
  record(first_, 0, boundary_run());
  // The second half has overwritten what it reads, and a device may look at indices when they are
  // recorded.
  run_apart(0, boundary_run());
  record(second_, boundary_run(), end_run());
  runner_->forget_outside();
}

/// Of the residents that a recording uses where the caller has them.
RecordedHalf::Addresses StepHalves::callers_addresses() const {
  RecordedHalf::Addresses addresses;
  for (TensorId id : residents_) {
    const at::Tensor* const outside = runner_->program().outside[static_cast<std::size_t>(id)];
    if (outside != nullptr) addresses.push_back(outside->data_ptr());
  }
  return addresses;
}

/// A recording makes no tensors: those that are views of what the caller brought are made here.
/// `end`: of the runs that make them.
void StepHalves::make_views_of(std::span<const TensorId> wanted, std::size_t end) {
  const Program& program = runner_->program();
  const bool any = std::ranges::any_of(wanted, [&](TensorId id) {
    const TensorId storage = graph_.storage(id);
    return storage != id && program.outside[static_cast<std::size_t>(storage)] != nullptr;
  });
  if (side_ && any) runner_->make_outside_views(0, end, report_);
}

const at::Tensor& StepHalves::result(TensorId id) const {
  const at::Tensor* value = runner_->program().ends.at(static_cast<std::size_t>(id));
  if (value == nullptr) value = runner_->program().handed.at(static_cast<std::size_t>(id));
  if (value != nullptr && value->defined()) return *value;
  throw std::logic_error(
      fmt::format("\"{}\" does not exist, so it cannot be returned", graph_.tensor(id).name));
}

/// The tensor in the caller's memory, or in a section of the block, which it then holds.
at::Tensor StepHalves::hand_out(TensorId id) const {
  const at::Tensor& value = result(id);
  const auto storage = static_cast<std::size_t>(graph_.storage(id));
  if (runner_->program().outside[storage] != nullptr) return value.tensor_data();
  auto* const data = static_cast<std::byte*>(value.data_ptr());
  return tensor_over(data, value, sections_.owner_of(data));
}

std::vector<at::Tensor> StepHalves::hand_out_results(std::span<const TensorId> wanted) const {
  StorageCopies copies;
  std::vector<at::Tensor> results;
  for (TensorId id : wanted) {
    const bool in_block = side_ && sections_.owner_of(result(id).data_ptr()) != nullptr;
    results.push_back(in_block ? copies.copy_of(result(id)) : hand_out(id));
  }
  return results;
}

void StepHalves::take_gradients(std::span<const at::Tensor> given) {
  sections_.take_late();
  runner_->move_to(sections_.addresses());
  for (std::size_t i = 0; i < tangents().size(); ++i) put(tangents()[i], given[i]);
}

std::vector<at::Tensor> StepHalves::hand_out_gradients(std::span<const TensorId> wanted) {
  std::vector<at::Tensor> results;
  for (TensorId id : wanted) results.push_back(hand_out(id));
  runner_->forget_outside();
  return results;
}

void StepHalves::forget_outside() { runner_->forget_outside(); }

void StepHalves::release() {
  if (!side_) {
    runner_.reset();
  } else if (runner_ != nullptr) {
    runner_->forget_outside();  // the recordings serve again where the block comes back
  }
  sections_.give_back();
}

void StepHalves::release_unused() {
  await_moves();
  if (plan_.layout->borders.empty()) {
    sections_.give_back_before(map_.arena);
  } else {
    sections_.give_back_unused();
  }
}

OpId StepHalves::unrecordable_op() const {
  const OpId first = first_.refused_op();
  return first == kNone ? second_.refused_op() : first;
}

slower::PlaceCounters StepHalves::moved() const {
  if (store_ == nullptr) return {};
  return store_->counters_of_places() - moved_before_;
}

}  // namespace lowtide::runtime
