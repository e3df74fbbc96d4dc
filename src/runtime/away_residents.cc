#include "runtime/away_residents.h"

#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <span>
#include <utility>

#include "base/error.h"

namespace lowtide::runtime {
namespace {

std::string why_not_here(const std::string& name) {
  return fmt::format(
      "\"{}\" lies in slower memory from the forward pass to the end of its backward pass "
      "(lowtide.Offload(..., parameters=True)). To have it now, call backward(), or drop what the "
      "forward pass returned (del loss): an interrupted step keeps it away too. Otherwise use it "
      "before the forward pass or after the backward pass, do what needs it within the module, or "
      "leave parameters=True out",
      name);
}

void require_own_memory(const AwayResidents::Resident& resident) {
  const at::Tensor& tensor = resident.tensor;
  const bool is_whole = tensor.has_storage() && tensor.storage_offset() == 0 &&
                        tensor.is_non_overlapping_and_dense() &&
                        tensor.storage().nbytes() == tensor.nbytes();
  const bool is_own = is_whole && tensor.storage().resizable();
  if (is_own) return;
  throw InputError(
      fmt::format("\"{}\" cannot move to slower memory, as its memory is not its own alone: it is "
                  "a part of another tensor, or shared with other processes or with NumPy; copy "
                  "it (parameter.data = parameter.data.clone()), or leave parameters=True of "
                  "lowtide.Offload out",
                  resident.name));
}

template <typename Storage>
constexpr bool kCanBeHereAgain =
    requires(Storage& storage) { storage.clear_data_ptr_access_error_msg_(); };

template <typename Storage>
void say_here_again(Storage& storage) {
  if constexpr (kCanBeHereAgain<Storage>) storage.clear_data_ptr_access_error_msg_();
}

void say_why_not_here(c10::StorageImpl& storage, std::string why) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(why));
}

c10::DataPtr memory_for(const c10::Storage& storage) {
  const c10::DeviceGuard guard(storage.device());
  return c10::GetAllocator(storage.device_type())->allocate(storage.nbytes());
}

/// Copies of a store. None goes on when this ends: their memory may be freed then, whatever ended
/// what asked for them.
class CopiesUnderWay {
 public:
  explicit CopiesUnderWay(slower::Store& store) : store_(store) {}
  ~CopiesUnderWay() {
    for (const slower::Ticket copy : tickets_) {
      try {
        store_.wait(copy);
      } catch (const std::exception&) {  // it has ended; who asked for it hears of it
      }
    }
  }
  CopiesUnderWay(const CopiesUnderWay&) = delete;
  CopiesUnderWay& operator=(const CopiesUnderWay&) = delete;

  void reserve(std::size_t copies) { tickets_.reserve(copies); }
  void add(slower::Ticket copy) { tickets_.push_back(copy); }
  const std::vector<slower::Ticket>& tickets() const { return tickets_; }

 private:
  slower::Store& store_;
  std::vector<slower::Ticket> tickets_;
};

std::span<std::byte> bytes_in(const c10::DataPtr& memory, const c10::Storage& storage) {
  return {static_cast<std::byte*>(memory.get()), storage.nbytes()};
}

}  // namespace

AwayResidents::AwayResidents(std::shared_ptr<slower::Store> store) : store_(std::move(store)) {
  if (!kCanBeHereAgain<c10::StorageImpl>) {
    throw InputError(fmt::format("parameters cannot move to slower memory with LibTorch {}: leave "
                                 "parameters=True of lowtide.Offload out, or use 2.13 or newer",
                                 TORCH_VERSION));
  }
}

void AwayResidents::send(const std::vector<Resident>& residents) {
  const std::lock_guard lock(mutex_);
  std::ranges::for_each(residents, require_own_memory);
  CopiesUnderWay copies(*store_);
  copies.reserve(residents.size());
  for (const Resident& resident : residents) {
    const auto* const data = static_cast<const std::byte*>(resident.tensor.const_data_ptr());
    copies.add(store_->write(resident.offset, {data, resident.tensor.nbytes()}, resident.name));
  }
  std::exception_ptr failed;
  for (const slower::Ticket copy : copies.tickets()) {
    try {
      store_->wait(copy);
    } catch (const Error&) {
      if (failed == nullptr) failed = std::current_exception();
    }
  }
  if (failed != nullptr) std::rethrow_exception(failed);
  for (const Resident& resident : residents) leave(resident);
}

/// Two residents may be one tensor.
void AwayResidents::leave(const Resident& resident) {
  const c10::Storage& storage = resident.tensor.storage();
  const bool has_left = std::ranges::any_of(away_, [&](const Away& away) {
    return away.storage.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl();
  });
  if (has_left) return;
  away_.push_back({storage, resident.offset, resident.name});
  bytes_ += static_cast<Bytes>(storage.nbytes());
  c10::StorageImpl& memory = *storage.unsafeGetStorageImpl();
  memory.set_data_ptr_noswap({nullptr, storage.device()});
  say_why_not_here(memory, why_not_here(resident.name));
}

void AwayResidents::bring_back() {
  const std::lock_guard lock(mutex_);
  // What only this holds, nobody can use any more.
  std::erase_if(away_, [&](const Away& away) {
    const bool is_gone = away.storage.use_count() == 1;
    if (is_gone) bytes_ -= static_cast<Bytes>(away.storage.nbytes());
    return is_gone;
  });
  std::vector<c10::DataPtr> memory;
  for (const Away& away : away_) memory.push_back(memory_for(away.storage));
  CopiesUnderWay copies(*store_);  // ends before the memory
  copies.reserve(away_.size());
  for (std::size_t i = 0; i < away_.size(); ++i) {
    const Away& away = away_[i];
    copies.add(store_->read(away.offset, bytes_in(memory[i], away.storage), away.name));
  }
  std::vector<Away> left;
  std::exception_ptr failed;
  for (std::size_t i = 0; i < away_.size(); ++i) {
    try {
      come_back(away_[i], copies.tickets()[i], memory[i]);
    } catch (const Error& error) {
      say_why_not_here(*away_[i].storage.unsafeGetStorageImpl(), error.what());
      left.push_back(away_[i]);
      if (failed == nullptr) failed = std::current_exception();
    }
  }
  away_ = std::move(left);
  if (failed != nullptr) std::rethrow_exception(failed);
}

void AwayResidents::come_back(const Away& away, slower::Ticket copy, c10::DataPtr& memory) {
  store_->wait(copy);
  c10::StorageImpl& storage = *away.storage.unsafeGetStorageImpl();
  say_here_again(storage);
  storage.set_data_ptr_noswap(std::move(memory));
  bytes_ -= static_cast<Bytes>(storage.nbytes());
}

void AwayResidents::try_to_bring_back() noexcept {
  try {
    bring_back();
  } catch (const std::exception&) {  // each that is left says so
  }
}

}  // namespace lowtide::runtime
