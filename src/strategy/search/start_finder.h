#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/control.h"
#include "bounds/price_bound.h"
#include "strategy/search/annealer.h"
#include "strategy/search/starts.h"

namespace lowtide::strategy::search {

/// Looks for plans from which annealing within a budget may begin. All references must outlive it.
class StartFinder {
 public:
  /// A control for a share of the time that is left.
  using TimeShare = std::function<Control(double share)>;

  /// Scores each start with `annealer` (left holding the last one); reports each to `listener`.
  StartFinder(const remat::StageGraph& graph, Bytes budget, const bounds::PriceBound& bound,
              Annealer& annealer, TimeShare share_of_time, const Control& listener);

  /// Plans that are good at the bound's prices and at higher ones. If none fits, the cheapest made
  /// to fit; if that fails, segments and evictions. In addition the best mixture.
  Starts find();
  /// Keep-all alone.
  Starts no_reruns();

 private:
  std::vector<Start> priced_starts(bool from_bound);
  void add_relieved(std::vector<Start> too_large, int patience, Starts& starts);
  std::optional<Start> relieve(const Start& start, Bytes limit, int patience, Starts& starts,
                               const Control& control);
  void add_small(Starts& starts);
  void add_smaller(Starts& starts);
  Start start_of(const std::vector<remat::Event>& events);

  const remat::StageGraph& graph_;
  Bytes budget_;
  const bounds::PriceBound& bound_;
  Annealer& annealer_;
  TimeShare share_of_time_;
  const Control& listener_;
};

}  // namespace lowtide::strategy::search
