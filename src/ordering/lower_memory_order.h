#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/control.h"
#include "remat/stage_graph.h"

namespace lowtide::ordering {

/// The effort of lower_memory_order().
struct OrderEffort {
  std::int64_t moves = 0;
  std::uint64_t seed = 1;
};

/// An order of all ops that computes the same bits and needs less memory above a limit, summed over
/// the first runs of ops, when everything is kept: the bytes that reruns must then save. Simulated
/// annealing (Kirkpatrick, Gelatt, Vecchi, Science 1983) on moves of one op past others; reordering
/// is known to help training graphs (Steiner et al., OLLA, 2022). Ends after a first part of the
/// moves if these gain little. Then ops that make nothing for others, such as updates, run as soon
/// as they may. Nothing when this is the graph's order. Same seed, same result.
std::optional<std::vector<OpId>> lower_memory_order(const Graph& graph,
                                                    const remat::StageGraph& stages, Bytes limit,
                                                    const OrderEffort& effort,
                                                    const Control& control);

/// The same for a sequence of executions, some of them reruns: returns the same executions in an
/// order that needs less memory above the limit, ops that make nothing for others early.
std::vector<OpId> lower_memory_sequence(const Graph& graph, const remat::StageGraph& stages,
                                        std::span<const OpId> executions, Bytes limit,
                                        const OrderEffort& effort, const Control& control);

/// All ops in the order in which `executions` first run the stages; nothing when that order is the
/// graph's.
std::optional<std::vector<OpId>> order_of(const Graph& graph, const remat::StageGraph& stages,
                                          std::span<const OpId> executions);

}  // namespace lowtide::ordering
