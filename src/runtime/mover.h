#pragma once

#include <map>
#include <string>

#include "device/device.h"
#include "plan/plan.h"
#include "slower/store.h"

namespace lowtide::runtime {

/// The storage that a plan moves first to slower memory; kNone where it moves nothing.
TensorId first_moved(const Plan& plan);

/// Throws InputError that names a value where the plan moves it and the store (null: none) is too
/// small, or copies from and to other memory than the device's.
void require_slower_memory(const Graph& graph, const Plan& plan,
                           const device::ComputeDevice& device, const slower::Store* store);

/// Copies values between a block and slower memory while ops run.
class Mover {
 public:
  /// `store` must outlive the mover; null for a plan that moves nothing.
  explicit Mover(slower::Store* store) : store_(store) {}
  /// Awaits the copies under way, as the block may end next.
  ~Mover() { await_all(); }
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  /// Starts a copy of `bytes` at `data` to the store. They stay as they are until wait().
  void out(TensorId storage, const std::byte* data, Bytes bytes, Bytes offset,
           const std::string& name);
  /// Starts a copy back. Nothing touches `data` until wait().
  void in(TensorId storage, std::byte* data, Bytes bytes, Bytes offset, const std::string& name);
  /// Until the storage's copy has ended. Throws Error that names the value where it failed.
  void wait(TensorId storage);
  /// The same for all copies under way, whether they fail or not.
  void await_all() noexcept;

  /// What was moved and waited for since the store was made.
  slower::Counters counters() const { return store_ ? store_->counters() : slower::Counters{}; }

 private:
  slower::Store* store_;
  std::map<TensorId, slower::Ticket> under_way_;
};

}  // namespace lowtide::runtime
