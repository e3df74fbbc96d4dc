#pragma once

namespace lowtide::slower {

/// How fast copies of one direction are: one of n bytes takes latency_seconds + n /
/// bytes_per_second.
struct Speed {
  double latency_seconds = 0;
  double bytes_per_second = 0;  ///< 0: without a limit
};

/// How fast a store is.
struct LaneSpeed {
  Speed out;            ///< of writes
  Speed in;             ///< of reads
  bool shared = false;  ///< whether copies in both directions at once slow each other down
};

}  // namespace lowtide::slower
