#pragma once

#include <cstdint>
#include <random>

#include "base/control.h"
#include "ordering/schedule.h"

namespace lowtide::ordering {

/// Simulated annealing of the bytes of a schedule above its limit, by moves of one stage past
/// others (Kirkpatrick, Gelatt, Vecchi, Science 1983). Same seed, same moves.
class Annealing {
 public:
  /// Both must outlive this.
  Annealing(Schedule& schedule, std::uint64_t seed, const Control& control)
      : schedule_(schedule), random_(seed), control_(control) {}

  /// Cools from the first temperature to the last, in bytes above the limit. Ends early when
  /// nothing is above the limit.
  void run(std::int64_t moves, double first, double last);

 private:
  int pick(int first, int last);
  double uniform();
  void move(double temperature);

  Schedule& schedule_;
  std::mt19937_64 random_;
  const Control& control_;
};

}  // namespace lowtide::ordering
