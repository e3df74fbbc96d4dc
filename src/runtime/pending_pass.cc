#include "runtime/pending_pass.h"

#include <ATen/ops/from_blob.h>

#include <utility>

#include "base/error.h"

namespace lowtide::runtime {
namespace {

std::int64_t next_pass_number() {
  static std::atomic<std::int64_t> last = 0;
  return ++last;
}

std::vector<std::int64_t> new_ticket(const device::ComputeDevice& device) {
  std::vector<std::int64_t> words(ticket_words(device));
  words[0] = next_pass_number();
  device.save_generator(reinterpret_cast<std::byte*>(&words[1]));
  return words;
}

}  // namespace

std::size_t ticket_words(const device::ComputeDevice& device) {
  constexpr auto kWord = static_cast<Bytes>(sizeof(std::int64_t));
  return static_cast<std::size_t>(1 + (device.generator_state_bytes() + kWord - 1) / kWord);
}

std::span<const std::int64_t> words_of(const at::Tensor& ticket,
                                       const device::ComputeDevice& device) {
  const std::size_t size = ticket_words(device);
  if (ticket.scalar_type() != at::kLong || !ticket.is_contiguous() || ticket.dim() != 1 ||
      static_cast<std::size_t>(ticket.size(0)) != size) {
    throw InputError("this is no ticket of a forward pass");
  }
  return {ticket.const_data_ptr<std::int64_t>(), size};
}

PendingPass::PendingPass(const device::ComputeDevice& device,
                         const std::shared_ptr<AwayResidents>& residents)
    : ticket(new_ticket(device)), away(residents) {}

void PendingPass::end() {
  open = false;
  is_aside = false;
  aside.reset();
  const std::shared_ptr<AwayResidents> residents = away.lock();
  if (residents != nullptr && !had_backward) residents->try_to_bring_back();
}

at::Tensor ticket_of(std::shared_ptr<PendingPass> pass) {
  std::vector<std::int64_t>& words = pass->ticket;
  return at::from_blob(
      words.data(), {static_cast<std::int64_t>(words.size())},
      [pass = std::move(pass)](void*) { pass->end(); }, at::kLong);
}

}  // namespace lowtide::runtime
