#pragma once

#include <span>
#include <vector>

#include "base/control.h"
#include "remat/moves.h"

namespace lowtide::strategy::search {

/// Makes a plan that is good at prices of memory, without a limit. Adds a rerun where the memory
/// that it saves is worth more, and removes it elsewhere, round by round until nothing pays or
/// control says stop. O(rounds x readers) moves.
class PricedDescent {
 public:
  PricedDescent(const remat::StageGraph& graph, remat::Prices prices);

  /// Starts from these events.
  std::vector<remat::Event> run(const std::vector<remat::Event>& start, const Control& control);

 private:
  double rating() const { return plan_.cost() + plan_.held_price(); }
  bool round(const Control& control);
  void try_drop(int value, int stage);
  void try_drop(std::span<const remat::Event> events, double saved, double patience);
  void try_drop_readers(int value);
  void try_hold(remat::Event event);
  /// A possible rerun of an op, after a time over which an output of the op is held.
  struct Gap {
    remat::Event event;
    double held = 0;  ///< price of holding the output over that time
  };
  Gap costliest_gap(int op) const;
  bool keep_if_better(double before);

  const remat::StageGraph& graph_;
  remat::Prices prices_;
  remat::EventPlan plan_;
  remat::Moves moves_;
  bool improved_ = false;
};

}  // namespace lowtide::strategy::search
