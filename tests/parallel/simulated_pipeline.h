#pragma once

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "parallel/schedule.h"

namespace lowtide::testing {

/// Runs a schedule pass by pass, each as soon as its rank is free and what it needs is there. The
/// oracle of what parallel/schedule.h says by formulas.
class SimulatedPipeline {
 public:
  /// Seconds of a micro-batch on each rank, all its chunks together.
  SimulatedPipeline(const parallel::Pipeline& pipeline, std::vector<double> forward,
                    std::vector<double> backward)
      : pipeline_(pipeline),
        seconds_{std::move(forward), std::move(backward)},
        free_at_(pipeline.stages),
        most_in_flight(pipeline.stages),
        most_of_chunk(pipeline.stages, std::vector<std::int64_t>(pipeline.chunks)) {
    run();
  }

 private:
  struct Pass {
    bool backward;
    int chunk;
    std::int64_t micro_batch;
  };
  using Key = std::tuple<bool, int, int, std::int64_t>;  // backward, rank, chunk, micro-batch

  /// The k-th pass of its direction (Narayanan et al., SC 2021, figure 4).
  Pass kth(bool backward, std::int64_t k) const {
    const std::int64_t p = pipeline_.stages, v = pipeline_.chunks;
    if (v == 1) return {backward, 0, k};
    const int chunk = static_cast<int>(k % (p * v) / p);
    return {backward, backward ? static_cast<int>(v) - 1 - chunk : chunk, k / (p * v) * p + k % p};
  }

  std::vector<Pass> order(int rank) const {
    const std::int64_t all = pipeline_.micro_batches * pipeline_.chunks;
    const std::int64_t after = pipeline_.stages - rank - 1;
    std::int64_t first = all;
    if (pipeline_.schedule == parallel::Schedule::one_f_one_b) first = std::min(all, after);
    if (pipeline_.schedule == parallel::Schedule::interleaved) {
      first = std::min(all, 2 * after + (pipeline_.chunks - 1) * pipeline_.stages);
    }
    std::vector<Pass> passes;
    for (std::int64_t k = 0; k < first; ++k) passes.push_back(kth(false, k));
    for (std::int64_t k = 0; k < all; ++k) {
      if (first + k < all) passes.push_back(kth(false, first + k));
      passes.push_back(kth(true, k));
    }
    return passes;
  }

  /// When what the pass needs is there; negative: not yet.
  double ready_at(int rank, const Pass& pass) const {
    const int p = pipeline_.stages, last = pipeline_.chunks - 1;
    Key needed;
    if (!pass.backward) {
      if (rank == 0 && pass.chunk == 0) return 0;
      needed = {false, (rank + p - 1) % p, rank > 0 ? pass.chunk : pass.chunk - 1,
                pass.micro_batch};
    } else if (rank == p - 1 && pass.chunk == last) {
      needed = {false, rank, pass.chunk, pass.micro_batch};
    } else {
      needed = {true, (rank + 1) % p, rank < p - 1 ? pass.chunk : pass.chunk + 1,
                pass.micro_batch};
    }
    const auto found = done_at_.find(needed);
    return found == done_at_.end() ? -1 : found->second;
  }

  void run() {
    std::vector<std::vector<Pass>> orders;
    for (int rank = 0; rank < pipeline_.stages; ++rank) orders.push_back(order(rank));
    std::vector<std::size_t> next(orders.size());
    std::vector<std::int64_t> in_flight(orders.size());
    std::vector<std::vector<std::int64_t>> of_chunk = most_of_chunk;
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < pipeline_.stages; ++rank) {
        while (next[rank] < orders[rank].size()) {
          const Pass& pass = orders[rank][next[rank]];
          const double ready = ready_at(rank, pass);
          if (ready < 0) break;
          free_at_[rank] = std::max(free_at_[rank], ready) +
                           seconds_[pass.backward][rank] / pipeline_.chunks;
          done_at_[{pass.backward, rank, pass.chunk, pass.micro_batch}] = free_at_[rank];
          in_flight[rank] += pass.backward ? -1 : 1;
          of_chunk[rank][pass.chunk] += pass.backward ? -1 : 1;
          most_in_flight[rank] = std::max(most_in_flight[rank], in_flight[rank]);
          most_of_chunk[rank][pass.chunk] =
              std::max(most_of_chunk[rank][pass.chunk], of_chunk[rank][pass.chunk]);
          ++next[rank];
          moved = true;
        }
      }
    }
    for (int rank = 0; rank < pipeline_.stages; ++rank) {
      complete = complete && next[rank] == orders[rank].size();
    }
    makespan = *std::ranges::max_element(free_at_);
  }

  const parallel::Pipeline& pipeline_;
  std::vector<double> seconds_[2];  // of forward and backward passes, by rank
  std::vector<double> free_at_;     // by rank
  std::map<Key, double> done_at_;

 public:
  double makespan = 0;
  bool complete = true;  ///< whether every pass ran
  std::vector<std::int64_t> most_in_flight;
  std::vector<std::vector<std::int64_t>> most_of_chunk;  ///< by rank and chunk
};

}  // namespace lowtide::testing
