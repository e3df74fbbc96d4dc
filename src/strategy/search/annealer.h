#pragma once

#include <optional>
#include <random>
#include <vector>

#include "base/control.h"
#include "remat/moves.h"

namespace lowtide::strategy::search {

/// The price per byte and stage above which a rerun of the average op pays.
double typical_price(const remat::StageGraph& graph);

/// The schedule of one run of simulated annealing.
struct Cooling {
  std::int64_t moves = 0;
  double first_temperature = 0;  ///< in the graph's cost unit
  double last_temperature = 0;
};

/// Local search over event sets: simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 1983) on
/// cost plus a penalty for memory above the limit. The weight of the penalty follows how often the
/// search is above it. A move drops a value until its next use and adds the reruns that this needs,
/// or holds a value instead of making it again, or exchanges two values. Events that nothing reads
/// any more are removed at once. Same seed, same result.
class Annealer {
 public:
  /// `byte_price`: approximate cost of a byte above the limit in one stage.
  Annealer(const remat::StageGraph& graph, Bytes limit, double byte_price, std::uint64_t seed);

  /// Starts again from these events.
  void load(const std::vector<remat::Event>& events);
  /// Continues from the current plan. Cools by moves or by the time limit, whichever is further
  /// ahead. Returns the number of moves made.
  std::int64_t run(const Cooling& cooling, const Control& control);
  /// Lowers the peak until the plan fits, or until `cooling.moves` moves in a row lowered nothing:
  /// aims a little below the lowest peak, again and again, and ends at it. Cools by these moves or
  /// by the time limit, whichever is further ahead; at temperature 0 it takes no step up. The path
  /// does not depend on the limit, only its end does.
  void descend(const Cooling& cooling, const Control& control);

  const remat::EventPlan& plan() const { return plan_; }
  /// Cost plus penalty of the current plan.
  double rating() const;
  /// The cheapest plan within the limit that was seen.
  bool any_fits() const { return best_.has_value(); }
  const std::vector<remat::Event>& best() const { return *best_; }
  double best_cost() const { return best_cost_; }

  /// The cheapest plan within the limit of each part of each run.
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
  std::vector<int> choices_;  // values worth dropping
  Bytes step_bytes_;          // added for each stage above the limit, however little
  double byte_price_;
  std::mt19937_64 random_;
  Bytes over_ = 0;        // of the plan before the move: bytes above the limit, with the penalty
  double most_cost_ = 0;  // a move to a higher cost is refused, whatever memory it saves
  std::optional<std::vector<remat::Event>> best_;
  double best_cost_ = 0;
  std::vector<Found> others_;
};

}  // namespace lowtide::strategy::search
