#pragma once

#include <memory>

#include "base/control.h"
#include "offload/ways.h"
#include "slower/place.h"
#include "train/options.h"

namespace lowtide::train {

/// What the options allow plans to use, at no matter what speed. Precondition: it is something.
offload::Slower all_moves(const MemoryOptions& memory);

/// The same with the speed of each place, measured where no run has done so before, and with most
/// of what a disk has free where nothing limits it. Reports the speeds.
offload::Slower slower_of(const MemoryOptions& memory, const Control& control);

/// Measures the places again, and keeps the speeds for later.
void measure_places_again(const MemoryOptions& memory);

/// The stores of what a plan moves.
class SlowerStores {
 public:
  /// Takes their room. Throws as slower::Place::open().
  SlowerStores(const Plan& plan, const MemoryOptions& memory);

  /// Null where nothing moves.
  slower::Store* store() const { return store_.get(); }
  /// Of the budget.
  Bytes buffer_bytes() const;

 private:
  std::unique_ptr<slower::Place> host_, disk_;  ///< null: nothing lies there
  std::unique_ptr<slower::Store> store_;
};

}  // namespace lowtide::train
