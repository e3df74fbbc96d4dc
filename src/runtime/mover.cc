#include "runtime/mover.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <span>

#include "base/error.h"
#include "plan/places.h"

namespace lowtide::runtime {

namespace {

void require_within(std::string_view place, Bytes taken, std::optional<Bytes> budget) {
  if (!budget || taken <= *budget) return;
  throw InputError(fmt::format("the plan takes {} bytes of the {} place of slower memory, and its "
                               "budget is {}; plan again",
                               taken, place, *budget));
}

/// Each place of the store must be as large as the plan's, and that within its budget.
void require_places(const SlowerMemory& slower, const slower::Store& store,
                    const std::string& moved) {
  const PlaceBytes bytes = bytes_of_places(slower);
  require_within("first", bytes.first, slower.second->first_budget);
  require_within("second", bytes.second, slower.second->budget);
  if (store.first_bytes() == bytes.first) return;
  throw InputError(fmt::format("the plan moves \"{}\" and others to {} bytes of a first place of "
                               "slower memory, and the executor's has {}; give it so many",
                               moved, bytes.first, store.first_bytes()));
}

}  // namespace

TensorId first_moved(const Plan& plan) {
  const auto first = std::ranges::find_if(plan.actions, moves_values, &Action::verb);
  return first == plan.actions.end() ? kNone : first->index;
}

void require_slower_memory(const Graph& graph, const Plan& plan,
                           const device::ComputeDevice& device, const slower::Store* store) {
  const TensorId moved = first_moved(plan);
  if (moved == kNone) return;
  const std::string& name = graph.tensor(moved).name;
  const Bytes needed = plan.slower ? plan.slower->bytes : 0;
  if (!plan.slower || store == nullptr || store->bytes() < needed) {
    throw InputError(fmt::format("the plan moves \"{}\" to slower memory of {} bytes, and the "
                                 "executor has {}; give it so many",
                                 name, needed, store == nullptr ? 0 : store->bytes()));
  }
  if (plan.slower->second) require_places(*plan.slower, *store, name);
  if (store->serves_host_memory() == device.is_host_memory()) return;
  throw InputError(
      fmt::format("the plan moves \"{}\", and the slower memory cannot copy from and to "
                  "memory of {}; give the executor one that can",
                  name, device.torch_device().str()));
}

void Mover::out(TensorId storage, const std::byte* data, Bytes bytes, Bytes offset,
                const std::string& name) {
  under_way_[storage] =
      store_->write(offset, std::span(data, static_cast<std::size_t>(bytes)), name);
}

void Mover::in(TensorId storage, std::byte* data, Bytes bytes, Bytes offset,
               const std::string& name) {
  under_way_[storage] =
      store_->read(offset, std::span(data, static_cast<std::size_t>(bytes)), name);
}

void Mover::wait(TensorId storage) {
  const auto copy = under_way_.extract(storage);
  if (!copy.empty()) store_->wait(copy.mapped());
}

void Mover::await_all() noexcept {
  while (!under_way_.empty()) {
    try {
      wait(under_way_.begin()->first);
    } catch (const std::exception&) {  // of a step that has failed already
    }
  }
}

}  // namespace lowtide::runtime
