#include "strategy/checkpoints/binomial.h"

#include <algorithm>

namespace lowtide::strategy::checkpoints {
namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 40;

/// The longest chain that `slots` states reverse with no step made more than `times` times: C(slots
/// + times, slots), or kMany when that is more.
std::int64_t reach(std::int64_t slots, std::int64_t times) {
  if (slots < 0 || times < 0) return 0;
  std::int64_t result = 1;
  for (std::int64_t k = 1; k <= std::min(slots, times); ++k) {
    result = result * (std::max(slots, times) + k) / k;
    if (result >= kMany) return kMany;
  }
  return result;
}

std::int64_t times_needed(std::int64_t length, std::int64_t slots) {
  std::int64_t times = 0;
  while (reach(slots, times) < length) ++times;
  return times;
}

}  // namespace

std::int64_t binomial_steps(std::int64_t length, std::int64_t slots) {
  const std::int64_t times = times_needed(length, slots);
  return times * length - reach(slots + 1, times - 1);
}

int binomial_split(int length, int slots) {
  const std::int64_t times = times_needed(length, slots);
  return static_cast<int>(std::min(reach(slots, times - 1), length - reach(slots - 1, times - 1)));
}

}  // namespace lowtide::strategy::checkpoints
