#include "runtime/autograd_executor.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "runtime/pending_pass.h"
#include "runtime/set_aside.h"
#include "runtime/step_halves.h"

namespace lowtide::runtime {

struct AutogradExecutor::Impl {
  Impl(const Graph& graph, const Plan& plan, const device::ComputeDevice& device, Launch launch,
       std::unique_ptr<slower::Store> store)
      : halves(graph, plan, device, launch == Launch::as_one, std::move(store)),
        ranges(waiting_ranges(graph, plan, halves.map())) {}

  void part_with_results();
  void find_held_results();
  void require_may_set_aside() const;
  std::vector<std::shared_ptr<PendingPass>> aside() const;
  void part_with_pass(at::Tensor copies);
  void take_back(const std::shared_ptr<PendingPass>& waiting, PassAside& aside);

  StepHalves halves;
  std::vector<BlockRange> ranges;  ///< that the second half reads
  std::shared_ptr<PendingPass> pass;
  std::vector<std::weak_ptr<PendingPass>> were_aside;  ///< some of them may have ended
  std::vector<WeakStorage> results;  ///< of the pending pass, in the order of program().results
  std::vector<TensorId> held_results;
};

/// Releases the results that the caller is expected to drop, so that only the caller holds them.
void AutogradExecutor::Impl::part_with_results() {
  results.clear();
  for (const Program::Result& result : halves.runner().program().results) {
    const auto made = std::ranges::find_if(result.values, [](auto* v) { return v->defined(); });
    results.push_back((*made)->storage().getWeakStorageImpl());
    if (!result.dropped) continue;
    for (at::Tensor* value : result.values) value->reset();
  }
}

void AutogradExecutor::Impl::find_held_results() {
  held_results.clear();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Program::Result& result = halves.runner().program().results[i];
    const auto own = std::ranges::count_if(result.values, [](auto* v) { return v->defined(); });
    if (results[i].use_count() > static_cast<std::size_t>(own)) {
      held_results.push_back(result.storage);
    }
  }
}

void AutogradExecutor::Impl::require_may_set_aside() const {
  const Plan& plan = halves.plan();
  const BlockMap& map = halves.map();
  const bool is_divided = !plan.layout->borders.empty() || map.late_begin < map.late_end;
  if (!halves.records() && !plan.slower && !is_divided) return;
  throw InputError(fmt::format("a pass of \"{}\" cannot be set aside, as its plan moves values, "
                               "divides the block, or is submitted as one recording; plan without",
                               halves.graph().name()));
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
  parted->host_states = halves.runner().program().host_states;
  for (const at::Tensor* tensor : halves.runner().tensors_outside()) {
    parted->callers.push_back(*tensor);
  }
  parted->results = std::exchange(results, {});
  halves.forget_outside();
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
  std::ranges::copy(aside.host_states, halves.runner().program().host_states.begin());
  const std::vector<at::Tensor*> callers = halves.runner().tensors_outside();
  for (std::size_t i = 0; i < aside.callers.size(); ++i) *callers[i] = std::move(aside.callers[i]);
  results = std::move(aside.results);
  pass = waiting;
}

AutogradExecutor::AutogradExecutor(const Graph& graph, const Plan& plan,
                                   const device::ComputeDevice& device, Launch launch,
                                   std::unique_ptr<slower::Store> slower)
    : impl_(std::make_unique<Impl>(graph, plan, device, launch, std::move(slower))) {}

AutogradExecutor::~AutogradExecutor() = default;

std::span<const TensorId> AutogradExecutor::residents() const { return impl_->halves.residents(); }

std::span<const TensorId> AutogradExecutor::tangents() const { return impl_->halves.tangents(); }

AutogradExecutor::Forward AutogradExecutor::forward(std::span<const at::Tensor> residents,
                                                    std::span<const TensorId> wanted) {
  Impl& impl = *impl_;
  if (!idle()) throw std::logic_error("forward() on a block that is still needed");
  const at::NoGradGuard no_grad;
  impl.halves.begin(residents);
  auto pass = std::make_shared<PendingPass>(impl.halves.device(), impl.halves.away());
  impl.halves.run_first(wanted);
  std::vector<at::Tensor> results = impl.halves.hand_out_results(wanted);
  impl.pass = pass;
  impl.part_with_results();
  return {std::move(results), ticket_of(std::move(pass))};
}

std::vector<at::Tensor> AutogradExecutor::backward(std::span<const at::Tensor> tangents,
                                                   std::span<const TensorId> wanted) {
  Impl& impl = *impl_;
  if (pending_pass() == 0) throw std::logic_error("backward() without a forward() before it");
  const at::NoGradGuard no_grad;
  impl.pass->open = false;
  impl.pass->had_backward = true;
  impl.find_held_results();
  impl.halves.take_gradients(tangents);
  impl.halves.run_second(wanted);
  return impl.halves.hand_out_gradients(wanted);
}

std::vector<at::Tensor> AutogradExecutor::replay(const at::Tensor& ticket,
                                                 std::span<const at::Tensor> residents,
                                                 std::span<const at::Tensor> tangents,
                                                 std::span<const TensorId> wanted) {
  Impl& impl = *impl_;
  if (!idle()) throw std::logic_error("replay() on a block that is still needed");
  const std::span<const std::int64_t> words = words_of(ticket, impl.halves.device());
  const at::NoGradGuard no_grad;
  impl.halves.begin(residents);
  impl.halves.run_first_again(words);
  impl.part_with_results();
  impl.halves.take_gradients(tangents);
  impl.halves.run_second_unrecorded();
  return impl.halves.hand_out_gradients(wanted);
}

void AutogradExecutor::rehearse(std::span<const at::Tensor> residents) {
  if (!idle()) throw std::logic_error("rehearse() on a block that is still needed");
  const at::NoGradGuard no_grad;
  impl_->halves.rehearse(residents);
}

OpId AutogradExecutor::unrecordable_op() const { return impl_->halves.unrecordable_op(); }

std::int64_t AutogradExecutor::recordings() const { return impl_->halves.recordings(); }

std::int64_t AutogradExecutor::ticket_size(const device::ComputeDevice& device) {
  return static_cast<std::int64_t>(ticket_words(device));
}

const std::vector<TensorId>& AutogradExecutor::held_results() const { return impl_->held_results; }

bool AutogradExecutor::idle() const {
  return pending_pass() == 0 && !impl_->halves.sections().in_use();
}

std::int64_t AutogradExecutor::pending_pass() const {
  return impl_->pass != nullptr && impl_->pass->open ? impl_->pass->number() : 0;
}

bool AutogradExecutor::is_pending(const at::Tensor& ticket) const {
  return pending_pass() != 0 && pending_pass() == words_of(ticket, impl_->halves.device())[0];
}

void AutogradExecutor::set_aside() {
  Impl& impl = *impl_;
  if (pending_pass() == 0) throw std::logic_error("set_aside() without a pending pass");
  impl.require_may_set_aside();
  const at::NoGradGuard no_grad;
  impl.part_with_pass(copied_out(impl.ranges, impl.halves.sections().addresses(),
                                 impl.halves.device().torch_device()));
}

void AutogradExecutor::resume(const at::Tensor& ticket) {
  Impl& impl = *impl_;
  const Sections& sections = impl.halves.sections();
  if (sections.in_use()) throw std::logic_error("resume() on a block that is still needed");
  const std::int64_t number = words_of(ticket, impl.halves.device())[0];
  const auto waiting = impl.aside();
  const auto found =
      std::ranges::find(waiting, number, [](const auto& known) { return known->number(); });
  if (found == waiting.end()) {
    throw InputError("no pass is set aside for this ticket: its backward pass has run");
  }
  const at::NoGradGuard no_grad;
  (*found)->is_aside = false;
  const std::unique_ptr<PassAside> aside = std::exchange((*found)->aside, nullptr);
  if (pending_pass() != 0) {
    exchange(aside->copies, impl.ranges, sections.addresses());
    impl.part_with_pass(std::move(aside->copies));
  } else {
    copy_back(aside->copies, impl.ranges, sections.addresses());
  }
  impl.take_back(*found, *aside);
}

Bytes AutogradExecutor::aside_bytes() const { return total_bytes(impl_->ranges); }

std::int64_t AutogradExecutor::passes_aside() const {
  return static_cast<std::int64_t>(impl_->aside().size());
}

void AutogradExecutor::discard() {
  if (pending_pass() == 0) return;
  impl_->halves.await_moves();
  impl_->pass->open = false;
  impl_->halves.forget_outside();
}

bool AutogradExecutor::contains(const at::Tensor& tensor) const {
  return impl_->halves.sections().owner_of(tensor.data_ptr()) != nullptr;
}

void AutogradExecutor::release() {
  if (passes_aside() > 0) {
    throw std::logic_error("release() of a block that passes are to resume in");
  }
  impl_->halves.release();
}

void AutogradExecutor::release_unused() {
  if (pending_pass() == 0 && passes_aside() == 0) impl_->halves.release_unused();
}

void AutogradExecutor::send_away(std::span<const at::Tensor> residents) {
  if (!idle()) throw std::logic_error("send_away() on a block that is still needed");
  impl_->halves.send_away(residents);
}

void AutogradExecutor::bring_back() {
  if (impl_->halves.away() != nullptr) impl_->halves.away()->bring_back();
}

Bytes AutogradExecutor::away_bytes() const {
  return impl_->halves.away() == nullptr ? 0 : impl_->halves.away()->bytes();
}

Bytes AutogradExecutor::block_bytes() const { return impl_->halves.map().end; }

Bytes AutogradExecutor::generator_state_bytes() const { return impl_->halves.map().arena; }

Bytes AutogradExecutor::held_bytes() const { return impl_->halves.sections().held_bytes(); }

Bytes AutogradExecutor::used_bytes() const {
  const StepReport& report = impl_->halves.report();
  return report.measured_peak_bytes - report.outside_bytes;
}

slower::PlaceCounters AutogradExecutor::moved() const { return impl_->halves.moved(); }

const std::vector<std::string>& AutogradExecutor::overruns() const {
  return impl_->halves.report().overruns;
}

}  // namespace lowtide::runtime
