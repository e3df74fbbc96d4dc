#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace lowtide::certify {

/// Why no plan of a graph within a budget costs less than `lower_bound`: the dual values of a
/// Lagrangian relaxation (docs/explanation/certificates.md). Whoever has the graph can check it
/// (certify/check.h) without knowing how it was found.
struct Certificate {
  /// A stage ends with the first run of its op; the bytes in use while that goes on have a price.
  struct Price {
    OpId op = 0;         ///< Graph::num_ops() for the end of the sequence, and one more for the run
                         ///< again of a Case
    double price = 0;    ///< cost per byte, >= 0
  };
  /// Ops that run again together, one behind the other: each but the last makes one large value
  /// that only the next one reads.
  struct Rerun {
    std::vector<OpId> ops;
    std::vector<TensorId> values;  ///< storages that the last op makes and whose holding is decided
  };
  /// Reruns that are decided together.
  using Cluster = std::vector<Rerun>;

  struct Proof {
    std::vector<Price> prices;      ///< those above 0, ops ascending
    std::vector<Cluster> clusters;
  };
  /// The plans that have a value at the first run of every op, or of every op behind `absent`, that
  /// comes between the op that makes the value and the last that reads it, and does not read it.
  struct Case {
    OpId absent = kNone;  ///< first runs without the value; kNone where there is no such op
    Proof proof;
  };
  /// All plans, case by case.
  struct Split {
    TensorId value = 0;
    std::vector<Case> cases;
  };

  std::string graph;            ///< its name
  int num_ops = 0;
  int num_tensors = 0;
  std::uint64_t digest = 0;     ///< certify/digest.h
  Bytes budget_bytes = 0;
  double lower_bound = 0;
  /// Which plans are meant. Absent: those whose first runs keep the graph's order. Else all, and
  /// these are the ops whose memory has a price, each of which must run before the next.
  std::optional<std::vector<OpId>> chain = {};
  Proof proof;
  std::optional<Split> split = {};  ///< may prove more than `proof`; without a chain
};

}  // namespace lowtide::certify
