#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace lowtide::simulated {

struct Options {
  Bytes bytes = 0;  ///< of the device's memory
  /// Streams do their work later than it is asked of them, in an order drawn from `seed`; else they
  /// do it at once.
  bool late = true;
  std::uint64_t seed = 0;
};

/// Makes the framework's PrivateUse1 device type this device, for the rest of the process. Throws
/// InputError when it is there already, or when `bytes` < 1, and Error when the system refuses the
/// memory. To be called before the process's first backward pass: autograd counts devices then.
void install(const Options& options);

/// Draws the order of work anew, after all work asked of the streams so far is done.
void reseed(std::uint64_t seed);

/// How often the host asked the device for work so far: for a kernel, a copy, or all of a graph.
std::int64_t launches();

/// The `count`-th request for the device's memory from now on is refused, as though none were left;
/// 0: none is.
void refuse_request(std::int64_t count);

}  // namespace lowtide::simulated
