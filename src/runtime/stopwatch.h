#pragma once

#include <chrono>

namespace lowtide::runtime {

/// Seconds since it was made or last restarted.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  /// The seconds so far; starts again from here.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double result = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return result;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace lowtide::runtime
