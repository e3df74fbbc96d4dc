#pragma once

#include <chrono>

namespace lowtide::runtime {

/// Measures seconds since construction or the last lap().
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  /// Returns the seconds so far and restarts.
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
