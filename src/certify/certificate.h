#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/lanes.h"

namespace lowtide::certify {

/// A proof that no plan of a graph within a budget costs less than `lower_bound`: the dual values
/// of a Lagrangian relaxation (docs/explanation/certificates.md). The check (certify/check.h) needs
/// only the graph, not the method that found the certificate.
struct Certificate {
  /// A stage ends with the first run of its op; the bytes in use during this run have a price.
  struct Price {
    OpId op = 0;       ///< Graph::num_ops() for the end of the sequence, and one more for the
                       ///< rerun of a Case
    double price = 0;  ///< cost per byte, >= 0
  };
  /// Ops that run again together, one after the other: each but the last makes one large value that
  /// only the next op reads.
  struct Rerun {
    std::vector<OpId> ops;
    std::vector<TensorId> values;  ///< storages of the last op that the cluster may hold
  };
  /// Reruns whose choices are made together.
  using Cluster = std::vector<Rerun>;

  struct Proof {
    std::vector<Price> prices;  ///< positive prices only, by ascending op
    std::vector<Cluster> clusters;
  };
  /// The plans in which the value is live at the first run of every op, or every op after `absent`,
  /// between its producer and its last reader. Ops that read the value do not count.
  struct Case {
    OpId absent = kNone;  ///< last op whose first run lacks the value; kNone for none
    Proof proof;
  };
  /// All plans, divided into cases.
  struct Split {
    TensorId value = 0;
    std::vector<Case> cases;
  };

  /// For plans that may move values to slower memory: their cost, the time of the last action, is
  /// at least weight * (time of all runs) + (1 - weight) * (time of all copies back).
  struct Moves {
    Lanes lanes;
    double weight = 1;  ///< from 0 to 1
    /// Whether residents may lie there between steps too. Then their bytes do not count.
    bool residents = false;
  };

  std::string graph;  ///< its name
  int num_ops = 0;
  int num_tensors = 0;
  std::uint64_t digest = 0;  ///< certify/digest.h
  Bytes budget_bytes = 0;
  double lower_bound = 0;
  /// Absent: the bound is for plans whose first runs keep the graph's order. Else it is for all
  /// plans; only memory at these ops has a price, and each must run before the next.
  std::optional<std::vector<OpId>> chain = {};
  Proof proof;
  std::optional<Split> split = {};  ///< may prove more than `proof`; without a chain
  /// With it, ops and values in the proofs and the chain are those of certify/relaxed.h.
  std::optional<Moves> moves = {};
};

}  // namespace lowtide::certify
