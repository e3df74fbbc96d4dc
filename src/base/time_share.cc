#include "base/time_share.h"

#include <algorithm>

namespace lowtide {

double share_of_seconds(const Control& whole, double share, double until) {
  if (whole.limit_seconds() <= 0) return 0;
  return std::max(1e-3, share * (until * whole.limit_seconds() - whole.used_seconds()));
}

Control part_of_time(const Control& whole, double seconds) {
  return Control(whole, seconds, [&whole](const std::string& message) { whole.report(message); });
}

Control share_of_time(const Control& whole, double share) {
  return part_of_time(whole, share_of_seconds(whole, share));
}

}  // namespace lowtide
