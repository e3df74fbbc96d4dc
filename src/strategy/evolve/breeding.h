#pragma once

#include <random>
#include <vector>

#include "base/control.h"
#include "remat/moves.h"

namespace lowtide::strategy::evolve {

/// A plan of a population: its reruns are its genes.
struct Individual {
  std::vector<remat::Event> events;  ///< ascending
  double cost = 0;
  Bytes excess = 0;  ///< sum over the stages of bytes above the limit; 0 when it fits
};

/// Within the limit first, or closest to it; then by cost.
bool is_fitter(const Individual& a, const Individual& b);

/// The operators of a genetic algorithm on plans (Holland, Adaptation in natural and artificial
/// systems, 1975). Repairs each child by dropping values where memory is above the limit, and
/// removes unneeded reruns. Same seed, same children.
class Breeding {
 public:
  /// Both must outlive this. When control says stop, children stay as they are then.
  Breeding(const remat::StageGraph& graph, Bytes limit, std::uint64_t seed, const Control& control);

  /// A plan with these reruns, repaired.
  Individual raise(std::vector<remat::Event> events);
  /// The reruns of one parent in the stages before a random one, and of the other from there on.
  Individual cross(const Individual& left, const Individual& right);
  /// Removes some reruns of a random range of stages.
  Individual mutate(const Individual& parent);
  /// The fittest of three at random: an index.
  int select(const std::vector<Individual>& population);

  bool chance(double probability);

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  void repair();
  void relieve(int stage);
  void trim();
  Bytes bytes_over() const;

  const remat::StageGraph& graph_;
  const Control& control_;
  remat::EventPlan plan_;
  remat::Moves moves_;
  std::vector<int> choices_;  // values that may be dropped
  std::mt19937_64 random_;
};

}  // namespace lowtide::strategy::evolve
