#include "ordering/annealing.h"

#include <algorithm>
#include <cmath>

namespace lowtide::ordering {

void Annealing::run(std::int64_t moves, double first, double last) {
  constexpr std::int64_t kBatch = 1024;
  constexpr double kNanoseconds = 1000;  // per move
  for (std::int64_t done = 0; done < moves && !control_.should_stop(); done += kBatch) {
    if (schedule_.excess() == 0) return;
    const double share =
        std::max(static_cast<double>(done) / static_cast<double>(moves), control_.used_share());
    const double temperature = first * std::pow(last / first, share);
    for (std::int64_t i = 0; i < kBatch; ++i) move(temperature);
    control_.count(kNanoseconds * kBatch);
  }
}

int Annealing::pick(int first, int last) {
  return first + static_cast<int>(random_() % static_cast<std::uint64_t>(last - first + 1));
}

double Annealing::uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

/// Makes one move, and undoes it unless the Metropolis rule accepts it.
void Annealing::move(double temperature) {
  constexpr int kNear = 4;
  constexpr int kFar = 64;
  const int from = pick(0, schedule_.size() - 1);
  const Schedule::Range range = schedule_.range_of(from);
  const int reach = random_() % 2 == 0 ? kNear : kFar;
  const int to = pick(std::max(range.first, from - reach), std::min(range.last, from + reach));
  if (to == from) return;
  const auto before = static_cast<double>(schedule_.excess());
  schedule_.move(from, to);
  const double most = before - temperature * std::log1p(-uniform());
  if (static_cast<double>(schedule_.excess()) > most) schedule_.move(to, from);
}

}  // namespace lowtide::ordering
