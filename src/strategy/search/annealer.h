#pragma once

#include <optional>
#include <random>
#include <vector>

#include "base/control.h"
#include "remat/moves.h"

namespace lowtide::strategy::search {

/// Cost per byte and stage at which running the average op again pays.
double typical_price(const remat::StageGraph& graph);

/// How one run of simulated annealing goes about it.
struct Cooling {
  std::int64_t moves = 0;
  double first_temperature = 0;  ///< in the graph's cost unit
  double last_temperature = 0;
};

/// Local search over event sets: simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 1983) on
/// cost plus a penalty for memory above the limit, whose weight follows how often the search is
/// above it. A move drops a value until its next use, with what it then takes to make it again, or
/// holds one that is made again, or changes one for another; events that nothing reads any more go
/// at once. Same seed, same result.
class Annealer {
 public:
  /// `byte_price`: about what a byte above the limit in one stage is worth, in cost.
  Annealer(const remat::StageGraph& graph, Bytes limit, double byte_price, std::uint64_t seed);

  /// Starts again from these events.
  void load(const std::vector<remat::Event>& events);
  /// Moves on from where it is. Cools with the moves or with the time limit, whichever is ahead.
  /// Returns how many moves it made.
  std::int64_t run(const Cooling& cooling, const Control& control);
  /// Lowers the peak until the plan fits, or until `moves` moves in a row lowered nothing. The way
  /// down does not depend on the limit, only where it ends.
  void descend(std::int64_t moves, const Control& control);

  const remat::EventPlan& plan() const { return plan_; }
  /// Cost plus penalty of the plan as it is.
  double rating() const;
  /// The cheapest plan within the limit that was seen.
  bool any_fits() const { return best_.has_value(); }
  const std::vector<remat::Event>& best() const { return *best_; }
  double best_cost() const { return best_cost_; }

  /// The cheapest within the limit of each part of each run.
  struct Found {
    double cost;
    std::vector<remat::Event> events;
  };
  const std::vector<Found>& others() const { return others_; }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  double uniform();  ///< in [0, 1)
  bool chance(double probability) { return uniform() < probability; }
  Bytes bytes_over() const;
  double depth();
  bool is_too_dear() const { return plan_.cost() > most_cost_; }

  void drop(remat::Event event, double deep);
  void drop_random();
  void hold_random();
  void shift_random();
  void exchange_random();
  void relieve(int stage);
  bool drop_together(int value, int stage);
  void change_something();
  void move(double temperature);
  void adapt_weight(int moves, int fitting);
  void remember();
  void sample(std::size_t before);

  const remat::StageGraph& graph_;
  Bytes limit_;
  remat::EventPlan plan_;
  remat::Moves moves_;
  std::vector<int> choices_;  // values that may be dropped, worth it
  Bytes step_bytes_;          // counted for each stage above the limit, however little
  double byte_price_;
  std::mt19937_64 random_;
  Bytes over_ = 0;        // of the plan before the move: bytes above the limit, as penalised
  double most_cost_ = 0;  // beyond this the move is refused, whatever it does to memory
  std::optional<std::vector<remat::Event>> best_;
  double best_cost_ = 0;
  std::vector<Found> others_;
};

}  // namespace lowtide::strategy::search
