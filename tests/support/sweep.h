#pragma once

#include <cstdlib>

namespace lowtide::testing {

/// How many of the cases of a sweep are tried: all with LOWTIDE_SWEEP in the environment, as by
/// `make test-all`, or else the usual number, which shows the same sooner.
template <typename Number>
Number sweep(Number all, Number usual) {
  return std::getenv("LOWTIDE_SWEEP") != nullptr ? all : usual;
}

}  // namespace lowtide::testing
