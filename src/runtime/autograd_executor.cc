#include "runtime/autograd_executor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "device/replayed_draw.h"
#include "graph/boundary.h"
#include "plan/residents.h"
#include "runtime/arena_runner.h"
#include "runtime/away_residents.h"
#include "runtime/recording.h"
#include "runtime/sections.h"
#include "runtime/set_aside.h"
#include "runtime/tensors.h"

namespace lowtide::runtime {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

std::int64_t next_number() {
  static std::atomic<std::int64_t> last = 0;
  return ++last;
}

/// Words of a ticket: its number, then the generator's state.
std::size_t ticket_words(const device::ComputeDevice& device) {
  constexpr auto kWord = static_cast<Bytes>(sizeof(std::int64_t));
  return static_cast<std::size_t>(1 + (device.generator_state_bytes() + kWord - 1) / kWord);
}

std::vector<std::int64_t> new_ticket(const device::ComputeDevice& device) {
  std::vector<std::int64_t> words(ticket_words(device));
  words[0] = next_number();
  device.save_generator(reinterpret_cast<std::byte*>(&words[1]));
  return words;
}

/// What a pass needs of an executor while another one has the block.
struct PassAside {
  at::Tensor copies;                   ///< of the block's waiting ranges
  std::vector<std::byte> host_states;  ///< of the generator, where the block cannot hold them
  std::vector<at::Tensor> callers;     ///< by ArenaRunner::tensors_outside()
  std::vector<WeakStorage> results;
};

/// A forward() whose backward() may still come.
struct PendingPass {
  PendingPass(const device::ComputeDevice& device, const std::shared_ptr<AwayResidents>& residents)
      : ticket(new_ticket(device)), away(residents) {}

  /// Its ticket is dead.
  void end() {
    open = false;
    is_aside = false;
    aside.reset();
    const std::shared_ptr<AwayResidents> residents = away.lock();
    if (residents != nullptr && !had_backward) residents->try_to_bring_back();
  }

  std::vector<std::int64_t> ticket;
  std::atomic<bool> open = true;
  std::atomic<bool> had_backward = false;
  std::weak_ptr<AwayResidents> away;  ///< ends with the executor; null where the plan moves none
  std::unique_ptr<PassAside> aside;   ///< null where the pass has the block
  std::atomic<bool> is_aside = false;
};

/// A tensor over the ticket's words; when it dies, the pass is no longer pending.
at::Tensor ticket_of(std::shared_ptr<PendingPass> pass) {
  std::vector<std::int64_t>& words = pass->ticket;
  return at::from_blob(
      words.data(), {static_cast<std::int64_t>(words.size())},
      [pass = std::move(pass)](void*) { pass->end(); }, at::kLong);
}

std::span<const std::int64_t> words_of(const at::Tensor& ticket, std::size_t size) {
  if (ticket.scalar_type() != at::kLong || !ticket.is_contiguous() || ticket.dim() != 1 ||
      static_cast<std::size_t>(ticket.size(0)) != size) {
    throw InputError("this is no ticket of a forward pass");
  }
  return {ticket.const_data_ptr<std::int64_t>(), size};
}

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

/// At the end of its life the generator is as it was at the begin.
class GeneratorKept {
 public:
  explicit GeneratorKept(const device::ComputeDevice& device)
      : device_(device), state_(static_cast<std::size_t>(device.generator_state_bytes())) {
    device_.save_generator(state_.data());
  }
  ~GeneratorKept() { device_.restore_generator(state_.data()); }
  GeneratorKept(const GeneratorKept&) = delete;
  GeneratorKept& operator=(const GeneratorKept&) = delete;

 private:
  const device::ComputeDevice& device_;
  std::vector<std::byte> state_;
};

/// Kernels are already called below autograd; autocast and active Python modes must not change
/// their results either.
const c10::DispatchKeySet kLeftOut =
    c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});

}  // namespace

struct AutogradExecutor::Impl {
  Impl(const Graph& graph, const Plan& plan, const device::ComputeDevice& device, Launch launch,
       std::unique_ptr<slower::Store> store)
      : graph(graph),
        plan(plan),
        device(device),
        boundary(boundary_of(graph)),
        store(std::move(store)),
        residents(storages(graph, Kind::resident)),
        is_away(residents_away(graph, plan)),
        map(map_arena(graph, plan, GeneratorStates::of(device),
                      launch == Launch::as_one ? Places::fixed : Places::none)),
        sections(map, device),
        ranges(waiting_ranges(graph, plan, map)) {
    require_slower_memory(graph, plan, device, this->store.get());
    const bool moves_residents = plan.slower && !plan.slower->residents.empty();
    if (moves_residents) away = std::make_shared<AwayResidents>(this->store);
    if (launch == Launch::one_by_one) return;
    check_recordable(graph, plan, map, device);
    side.emplace(device.torch_device());
  }
  ~Impl() {
    if (away != nullptr) away->try_to_bring_back();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void take_block();
  void take_late_section();
  void part_with_results();
  void require_may_set_aside() const;
  std::vector<std::shared_ptr<PendingPass>> aside() const;
  void part_with_pass(at::Tensor copies);
  void take_back(const std::shared_ptr<PendingPass>& waiting, PassAside& aside);
  void find_held_results();
  void send_away(std::span<const at::Tensor> given);
  void begin(std::span<const at::Tensor> given);
  void await_moves() const noexcept;
  void put(TensorId id, const at::Tensor& tensor);
  const at::Tensor& result(TensorId id) const;
  at::Tensor hand_out(TensorId id) const;
  void run(std::size_t from, std::size_t to, Effects effects = Effects::happen);
  void run_half(bool first);
  void record(RecordedHalf& half, std::size_t from, std::size_t to);
  RecordedHalf::Addresses callers_addresses() const;
  void make_views_of(std::span<const TensorId> wanted, bool first);
  std::vector<at::Tensor> hand_out_results(std::span<const TensorId> wanted) const;
  void take_gradients(std::span<const at::Tensor> given);
  std::vector<at::Tensor> hand_out_gradients(std::span<const TensorId> wanted);
  std::span<const TensorId> tangents() const { return graph.op(boundary).outputs; }
  bool contains(const at::Tensor& tensor) const {
    return sections.owner_of(tensor.data_ptr()) != nullptr;
  }

  const Graph& graph;
  const Plan& plan;
  const device::ComputeDevice& device;
  OpId boundary;
  std::shared_ptr<slower::Store> store;  ///< null where nothing moves
  std::vector<TensorId> residents;
  std::vector<bool> is_away;            ///< by tensor: whether it is a resident that the plan moves
  std::shared_ptr<AwayResidents> away;  ///< null where the plan moves none
  slower::Counters moved_before;        ///< when the last step began
  BlockMap map;
  Sections sections;
  std::vector<BlockRange> ranges;       ///< that the second half reads
  std::unique_ptr<ArenaRunner> runner;  ///< for the sections' last addresses; null without
  std::shared_ptr<PendingPass> pass;
  std::vector<std::weak_ptr<PendingPass>> were_aside;  ///< some of them may have ended
  std::vector<WeakStorage> results;  ///< of the pending pass, in the order of program().results
  std::vector<TensorId> held_results;
  StepReport report;
  std::optional<device::SideStream> side;  ///< where halves are recorded; none: they are not
  RecordedHalf first_half, second_half;
};

void AutogradExecutor::Impl::take_block() {
  sections.take();
  const SectionAddresses block = sections.addresses();
  if (side && runner != nullptr && !runner->lies_at(block)) {
    runner.reset();
    first_half.reset();
    second_half.reset();
  }
  if (runner != nullptr) return runner->move_to(block);
  runner = std::make_unique<ArenaRunner>(graph, plan, device, map, block,
                                         ArenaRunner::Beyond{.from_system = true}, store.get());
}

/// Allocates the section that replaces the dropped results.
void AutogradExecutor::Impl::take_late_section() {
  sections.take_late();
  runner->move_to(sections.addresses());
}

/// Releases the results that the caller is expected to drop, so that only the caller holds them.
void AutogradExecutor::Impl::part_with_results() {
  results.clear();
  for (const Program::Result& result : runner->program().results) {
    const auto made = std::ranges::find_if(result.values, [](auto* v) { return v->defined(); });
    results.push_back((*made)->storage().getWeakStorageImpl());
    if (!result.dropped) continue;
    for (at::Tensor* value : result.values) value->reset();
  }
}

void AutogradExecutor::Impl::require_may_set_aside() const {
  const bool is_divided = !plan.layout->borders.empty() || map.late_begin < map.late_end;
  if (!side && !plan.slower && !is_divided) return;
  throw InputError(fmt::format("a pass of \"{}\" cannot be set aside, as its plan moves values, "
                               "divides the block, or is submitted as one recording; plan without",
                               graph.name()));
}

/// The passes that are set aside.
std::vector<std::shared_ptr<PendingPass>> AutogradExecutor::Impl::aside() const {
  std::vector<std::shared_ptr<PendingPass>> found;
  for (const std::weak_ptr<PendingPass>& known : were_aside) {
    std::shared_ptr<PendingPass> waiting = known.lock();
    if (waiting != nullptr && waiting->is_aside) found.push_back(std::move(waiting));
  }
  return found;
}

/// The pending pass is aside from now on. `copies`: of its waiting ranges.
void AutogradExecutor::Impl::part_with_pass(at::Tensor copies) {
  auto parted = std::make_unique<PassAside>();
  parted->copies = std::move(copies);
  parted->host_states = runner->program().host_states;
  for (const at::Tensor* tensor : runner->tensors_outside()) parted->callers.push_back(*tensor);
  parted->results = std::exchange(results, {});
  runner->forget_outside();
  pass->aside = std::move(parted);
  pass->is_aside = true;
  // This one may have been aside before.
  std::erase_if(were_aside,
                [&](const auto& known) { return known.expired() || known.lock() == pass; });
  were_aside.push_back(std::exchange(pass, nullptr));
}

/// The pass is the pending one, but for its waiting ranges, which the block has already.
void AutogradExecutor::Impl::take_back(const std::shared_ptr<PendingPass>& waiting,
                                       PassAside& aside) {
  // In place: the runs point there.
  std::ranges::copy(aside.host_states, runner->program().host_states.begin());
  const std::vector<at::Tensor*> callers = runner->tensors_outside();
  for (std::size_t i = 0; i < aside.callers.size(); ++i) *callers[i] = std::move(aside.callers[i]);
  results = std::move(aside.results);
  pass = waiting;
}

void AutogradExecutor::Impl::find_held_results() {
  held_results.clear();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Program::Result& result = runner->program().results[i];
    const auto own = std::ranges::count_if(result.values, [](auto* v) { return v->defined(); });
    if (results[i].use_count() > static_cast<std::size_t>(own)) {
      held_results.push_back(result.storage);
    }
  }
}

void AutogradExecutor::Impl::put(TensorId id, const at::Tensor& tensor) {
  check_fits(graph.tensor(id), tensor, device.torch_device());
  if (is_away[static_cast<std::size_t>(id)]) return;
  if (at::Tensor* const outside = runner->program().outside[static_cast<std::size_t>(id)]) {
    *outside = tensor.tensor_data();
  } else {
    runner->program().placed[static_cast<std::size_t>(id)]->copy_(tensor.tensor_data());
  }
}

/// Before something of the block is released or used otherwise.
void AutogradExecutor::Impl::await_moves() const noexcept {
  if (runner != nullptr) runner->await_moves();
}

void AutogradExecutor::Impl::send_away(std::span<const at::Tensor> given) {
  if (away == nullptr) return;
  moved_before = store->counters();
  std::vector<AwayResidents::Resident> sent;
  for (std::size_t i = 0; i < residents.size(); ++i) {
    const TensorId id = residents[i];
    if (!is_away[static_cast<std::size_t>(id)]) continue;
    const Tensor& tensor = graph.tensor(id);
    check_fits(tensor, given[i], device.torch_device());
    if (!lies_as(tensor, given[i])) {
      throw InputError(fmt::format("\"{}\" lies in another layout than when the plan was made, so "
                                   "that it cannot move to slower memory; plan again",
                                   tensor.name));
    }
    const Bytes offset = std::ranges::find(plan.slower->copies, id, &Copy::storage)->offset;
    sent.push_back({given[i], offset, tensor.name});
  }
  away->send(sent);
}

/// Begins a step with these residents.
void AutogradExecutor::Impl::begin(std::span<const at::Tensor> given) {
  if (away != nullptr && away->bytes() == 0) {
    throw std::logic_error("a pass without send_away() before it");
  }
  if (away == nullptr && store != nullptr) moved_before = store->counters();
  await_moves();
  sections.give_back_late();
  take_block();
  report = {};
  first_half.forget_refusal();
  second_half.forget_refusal();
  for (std::size_t i = 0; i < residents.size(); ++i) put(residents[i], given[i]);
  runner->begin();
}

void AutogradExecutor::Impl::run(std::size_t from, std::size_t to, Effects effects) {
  const c10::impl::ExcludeDispatchKeyGuard guard(kLeftOut);
  runner->run(from, to, {}, report, effects);
  runner->finish(report);
}

/// As run(), as one where this executor records.
void AutogradExecutor::Impl::run_half(bool first) {
  const Program& program = runner->program();
  const std::size_t from = first ? 0 : program.boundary;
  const std::size_t to = first ? program.boundary : program.runs.size();
  if (!side) return run(from, to);
  RecordedHalf& half = first ? first_half : second_half;
  const bool is_recorded = half.is_for(callers_addresses());
  // A first half that was submitted as one has made no views of the caller's tensors.
  if (!is_recorded && !first) runner->make_outside_views(0, from, report);
  if (!half.has_run) {
    side->run([&] { run(from, to); });
    half.has_run = true;
    return;
  }
  if (!is_recorded) record(half, from, to);
  report = half.submit(device);
}

void AutogradExecutor::Impl::record(RecordedHalf& half, std::size_t from, std::size_t to) {
  const c10::impl::ExcludeDispatchKeyGuard guard(kLeftOut);
  half.record(*runner, device, *side, from, to, callers_addresses());
}

/// Of the residents that a recording uses where the caller has them.
RecordedHalf::Addresses AutogradExecutor::Impl::callers_addresses() const {
  RecordedHalf::Addresses addresses;
  for (TensorId id : residents) {
    const at::Tensor* const outside = runner->program().outside[static_cast<std::size_t>(id)];
    if (outside != nullptr) addresses.push_back(outside->data_ptr());
  }
  return addresses;
}

/// A recording makes no tensors: those that are views of what the caller brought are made here.
void AutogradExecutor::Impl::make_views_of(std::span<const TensorId> wanted, bool first) {
  const Program& program = runner->program();
  const bool any = std::ranges::any_of(wanted, [&](TensorId id) {
    const TensorId storage = graph.storage(id);
    return storage != id && program.outside[static_cast<std::size_t>(storage)] != nullptr;
  });
  if (!side || !any) return;
  runner->make_outside_views(0, first ? program.boundary : program.runs.size(), report);
}

const at::Tensor& AutogradExecutor::Impl::result(TensorId id) const {
  const at::Tensor* value = runner->program().ends.at(static_cast<std::size_t>(id));
  if (value == nullptr) value = runner->program().handed.at(static_cast<std::size_t>(id));
  if (value != nullptr && value->defined()) return *value;
  throw std::logic_error(
      fmt::format("\"{}\" does not exist, so it cannot be returned", graph.tensor(id).name));
}

/// The tensor in the caller's memory, or in a section of the block, which it then holds.
at::Tensor AutogradExecutor::Impl::hand_out(TensorId id) const {
  const at::Tensor& value = result(id);
  const auto storage = static_cast<std::size_t>(graph.storage(id));
  if (runner->program().outside[storage] != nullptr) return value.tensor_data();
  auto* const data = static_cast<std::byte*>(value.data_ptr());
  return tensor_over(data, value, sections.owner_of(data));
}

/// Those of the first half, in memory that is not the block's.
std::vector<at::Tensor> AutogradExecutor::Impl::hand_out_results(
    std::span<const TensorId> wanted) const {
  StorageCopies copies;
  std::vector<at::Tensor> results;
  for (TensorId id : wanted) {
    const bool in_block = side && contains(result(id));
    results.push_back(in_block ? copies.copy_of(result(id)) : hand_out(id));
  }
  return results;
}

/// Of the results, before the second half.
void AutogradExecutor::Impl::take_gradients(std::span<const at::Tensor> given) {
  take_late_section();
  for (std::size_t i = 0; i < tangents().size(); ++i) put(tangents()[i], given[i]);
}

/// Ends the step.
std::vector<at::Tensor> AutogradExecutor::Impl::hand_out_gradients(
    std::span<const TensorId> wanted) {
  std::vector<at::Tensor> results;
  for (TensorId id : wanted) results.push_back(hand_out(id));
  runner->forget_outside();
  return results;
}

AutogradExecutor::AutogradExecutor(const Graph& graph, const Plan& plan,
                                   const device::ComputeDevice& device, Launch launch,
                                   std::unique_ptr<slower::Store> slower)
    : impl_(std::make_unique<Impl>(graph, plan, device, launch, std::move(slower))) {}

AutogradExecutor::~AutogradExecutor() = default;

std::span<const TensorId> AutogradExecutor::residents() const { return impl_->residents; }

std::span<const TensorId> AutogradExecutor::tangents() const { return impl_->tangents(); }

AutogradExecutor::Forward AutogradExecutor::forward(std::span<const at::Tensor> residents,
                                                    std::span<const TensorId> wanted) {
  Impl& impl = *impl_;
  if (!idle()) throw std::logic_error("forward() on a block that is still needed");
  const at::NoGradGuard no_grad;
  impl.begin(residents);
  auto pass = std::make_shared<PendingPass>(impl.device, impl.away);
  impl.run_half(true);
  impl.make_views_of(wanted, true);
  impl.pass = pass;
  Forward answer{impl.hand_out_results(wanted), ticket_of(std::move(pass))};
  impl.part_with_results();
  return answer;
}

std::vector<at::Tensor> AutogradExecutor::backward(std::span<const at::Tensor> tangents,
                                                   std::span<const TensorId> wanted) {
  Impl& impl = *impl_;
  if (pending_pass() == 0) throw std::logic_error("backward() without a forward() before it");
  const at::NoGradGuard no_grad;
  impl.pass->open = false;
  impl.pass->had_backward = true;
  impl.find_held_results();
  impl.take_gradients(tangents);
  impl.run_half(false);
  impl.make_views_of(wanted, false);
  return impl.hand_out_gradients(wanted);
}

std::vector<at::Tensor> AutogradExecutor::replay(const at::Tensor& ticket,
                                                 std::span<const at::Tensor> residents,
                                                 std::span<const at::Tensor> tangents,
                                                 std::span<const TensorId> wanted) {
  Impl& impl = *impl_;
  if (!idle()) throw std::logic_error("again() on a block that is still needed");
  const std::span<const std::int64_t> words = words_of(ticket, ticket_words(impl.device));
  const at::NoGradGuard no_grad;
  impl.begin(residents);
  {
    std::vector<std::byte> present(static_cast<std::size_t>(impl.device.generator_state_bytes()));
    const device::ReplayedDraw draw(impl.device, reinterpret_cast<const std::byte*>(&words[1]),
                                    present.data());
    impl.run(0, impl.runner->program().boundary, Effects::left_out);
  }
  impl.part_with_results();
  impl.take_gradients(tangents);
  impl.run(impl.runner->program().boundary, impl.runner->program().runs.size());
  return impl.hand_out_gradients(wanted);
}

void AutogradExecutor::rehearse(std::span<const at::Tensor> residents) {
  Impl& impl = *impl_;
  if (!idle()) throw std::logic_error("rehearse() on a block that is still needed");
  const at::NoGradGuard no_grad;
  impl.begin(residents);
  const std::size_t boundary = impl.runner->program().boundary;
  const std::size_t end = impl.runner->program().runs.size();
  for (TensorId id : impl.tangents()) {
    const auto index = static_cast<std::size_t>(id);
    if (at::Tensor* const empty = impl.runner->program().outside[index]) {
      *empty = tensor_over(nullptr, impl.graph.tensor(id), impl.device.torch_device());
    } else {
      impl.runner->program().placed[index]->zero_();
    }
  }
  const auto run_apart = [&](std::size_t from, std::size_t to) {
    const GeneratorKept kept(impl.device);
    impl.side->run([&] { impl.run(from, to, Effects::left_out); });
  };
  run_apart(0, boundary);
  run_apart(boundary, end);
  impl.first_half.has_run = impl.second_half.has_run = true;
  impl.record(impl.first_half, 0, boundary);
  // The second half has overwritten what it reads, and a device may look at indices when they are
  // recorded.
  run_apart(0, boundary);
  impl.record(impl.second_half, boundary, end);
  impl.runner->forget_outside();
}

OpId AutogradExecutor::unrecordable_op() const {
  const OpId first = impl_->first_half.refused_op();
  return first == kNone ? impl_->second_half.refused_op() : first;
}

std::int64_t AutogradExecutor::recordings() const {
  return impl_->first_half.recordings() + impl_->second_half.recordings();
}

std::int64_t AutogradExecutor::ticket_size(const device::ComputeDevice& device) {
  return static_cast<std::int64_t>(ticket_words(device));
}

const std::vector<TensorId>& AutogradExecutor::held_results() const { return impl_->held_results; }

bool AutogradExecutor::idle() const { return pending_pass() == 0 && !impl_->sections.in_use(); }

std::int64_t AutogradExecutor::pending_pass() const {
  return impl_->pass != nullptr && impl_->pass->open ? impl_->pass->ticket[0] : 0;
}

bool AutogradExecutor::is_pending(const at::Tensor& ticket) const {
  return pending_pass() != 0 && pending_pass() == words_of(ticket, ticket_words(impl_->device))[0];
}

void AutogradExecutor::set_aside() {
  Impl& impl = *impl_;
  if (pending_pass() == 0) throw std::logic_error("set_aside() without a pending pass");
  impl.require_may_set_aside();
  const at::NoGradGuard no_grad;
  impl.part_with_pass(
      copied_out(impl.ranges, impl.sections.addresses(), impl.device.torch_device()));
}

void AutogradExecutor::resume(const at::Tensor& ticket) {
  Impl& impl = *impl_;
  if (impl.sections.in_use()) throw std::logic_error("resume() on a block that is still needed");
  const std::int64_t number = words_of(ticket, ticket_words(impl.device))[0];
  const auto waiting = impl.aside();
  const auto found =
      std::ranges::find(waiting, number, [](const auto& known) { return known->ticket[0]; });
  if (found == waiting.end()) {
    throw InputError("no pass is set aside for this ticket: its backward pass has run");
  }
  const at::NoGradGuard no_grad;
  (*found)->is_aside = false;
  const std::unique_ptr<PassAside> aside = std::exchange((*found)->aside, nullptr);
  if (pending_pass() != 0) {
    exchange(aside->copies, impl.ranges, impl.sections.addresses());
    impl.part_with_pass(std::move(aside->copies));
  } else {
    copy_back(aside->copies, impl.ranges, impl.sections.addresses());
  }
  impl.take_back(*found, *aside);
}

Bytes AutogradExecutor::aside_bytes() const { return total_bytes(impl_->ranges); }

std::int64_t AutogradExecutor::passes_aside() const {
  return static_cast<std::int64_t>(impl_->aside().size());
}

void AutogradExecutor::discard() {
  if (pending_pass() == 0) return;
  impl_->await_moves();
  impl_->pass->open = false;
  impl_->runner->forget_outside();
}

bool AutogradExecutor::contains(const at::Tensor& tensor) const { return impl_->contains(tensor); }

void AutogradExecutor::release() {
  if (passes_aside() > 0)
    throw std::logic_error("release() of a block that passes are to resume in");
  if (!impl_->side) {
    impl_->runner.reset();
  } else if (impl_->runner != nullptr) {
    impl_->runner->forget_outside();  // the recordings serve again where the block comes back
  }
  impl_->sections.give_back();
}

void AutogradExecutor::release_unused() {
  if (pending_pass() != 0 || passes_aside() > 0) return;
  impl_->await_moves();
  if (impl_->plan.layout->borders.empty()) {
    impl_->sections.give_back_before(impl_->map.arena);
  } else {
    impl_->sections.give_back_unused();
  }
}

void AutogradExecutor::send_away(std::span<const at::Tensor> residents) {
  if (!idle()) throw std::logic_error("send_away() on a block that is still needed");
  impl_->send_away(residents);
}

void AutogradExecutor::bring_back() {
  if (impl_->away != nullptr) impl_->away->bring_back();
}

Bytes AutogradExecutor::away_bytes() const {
  return impl_->away == nullptr ? 0 : impl_->away->bytes();
}

Bytes AutogradExecutor::block_bytes() const { return impl_->map.end; }

Bytes AutogradExecutor::generator_state_bytes() const { return impl_->map.arena; }

Bytes AutogradExecutor::held_bytes() const { return impl_->sections.held_bytes(); }

Bytes AutogradExecutor::used_bytes() const {
  return impl_->report.measured_peak_bytes - impl_->report.outside_bytes;
}

slower::Counters AutogradExecutor::moved() const {
  return impl_->store == nullptr ? slower::Counters{}
                                 : impl_->store->counters() - impl_->moved_before;
}

const std::vector<std::string>& AutogradExecutor::overruns() const {
  return impl_->report.overruns;
}

}  // namespace lowtide::runtime
