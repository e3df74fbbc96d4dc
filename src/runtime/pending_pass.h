#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "runtime/away_residents.h"

namespace lowtide::runtime {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

/// Words of a ticket: a number unique to the pass in the process, then the state of the device's
/// random generator at its start.
std::size_t ticket_words(const device::ComputeDevice& device);
/// Those of a ticket. Throws InputError for a tensor that is none.
std::span<const std::int64_t> words_of(const at::Tensor& ticket,
                                       const device::ComputeDevice& device);

/// What a pass needs of an executor while another one has the block.
struct PassAside {
  at::Tensor copies;                   ///< of the block's waiting ranges
  std::vector<std::byte> host_states;  ///< of the generator, where the block cannot hold them
  std::vector<at::Tensor> callers;     ///< by ArenaRunner::tensors_outside()
  std::vector<WeakStorage> results;
};

/// A first half whose second half may still come.
struct PendingPass {
  /// `residents`: those that are away during it; null where the plan moves none.
  PendingPass(const device::ComputeDevice& device, const std::shared_ptr<AwayResidents>& residents);

  /// Its ticket is dead.
  void end();

  std::int64_t number() const { return ticket[0]; }

  std::vector<std::int64_t> ticket;
  std::atomic<bool> open = true;
  std::atomic<bool> had_backward = false;
  std::weak_ptr<AwayResidents> away;  ///< ends with the executor
  std::unique_ptr<PassAside> aside;   ///< null where the pass has the block
  std::atomic<bool> is_aside = false;
};

/// A tensor over the ticket's words; when it dies, the pass is no longer pending.
at::Tensor ticket_of(std::shared_ptr<PendingPass> pass);

}  // namespace lowtide::runtime
