#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lowtide::testing {

/// A forbidden behaviour, in words.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, std::string_view what) {
  if (!holds) throw Fault(std::string(what));
}

/// Ends the program where there is a fault, as engines such as libFuzzer expect.
inline void abort_at(const std::string& fault) {
  if (fault.empty()) return;
  std::fprintf(stderr, "fault: %s\n", fault.c_str());
  std::abort();
}

}  // namespace lowtide::testing
