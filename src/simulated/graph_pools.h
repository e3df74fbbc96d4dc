#pragma once

#include <c10/core/Allocator.h>

#include <map>
#include <mutex>

#include "device/allocation.h"
#include "simulated/hardware/streams.h"

namespace lowtide::simulated {

/// The memory of graphs. What is asked for in a capture comes from a pool, which keeps it for the
/// replays while a graph holds the pool; within captures a released block serves again.
class GraphPools {
 public:
  static GraphPools& instance();

  /// A graph holds the pool with this id; {0, 0}: a new one. Returns its id.
  c10::MempoolId_t hold(c10::MempoolId_t id);
  /// To be called once for each hold(). The last one gives back what no tensor has.
  void drop(c10::MempoolId_t id);
  device::MemorySource::Grant allocate(c10::MempoolId_t id, Bytes bytes, StreamId stream);

 private:
  struct Block {
    Bytes bytes = 0;
    bool taken = true;
  };
  struct Pool {
    int graphs = 0;
    std::map<void*, Block> blocks;
  };

  static void release(void* data);
  static void give_back_untaken(Pool& pool);

  std::mutex mutex_;
  c10::CaptureId_t last_ = 0;
  std::map<c10::MempoolId_t, Pool> pools_;
};

}  // namespace lowtide::simulated
