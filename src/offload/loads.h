#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace lowtide::offload {

/// A graph in which chosen values lie in slower memory from the moment they are made, and are
/// loaded from there, for a price, as often as a plan likes. To move a value away and back is then
/// to drop and load it, so that every search for reruns decides about moves as well.
///
/// For each chosen value v, its op makes a token of no bytes instead, and an op "load v" makes v of
/// the token. A chosen resident becomes a value that is loaded before its first use; its token is a
/// resident, which the ops that read or write it read or write too, so that no old content is
/// loaded. Tensors keep their ids; tokens follow them.
struct LoadGraph {
  Graph graph;
  std::vector<OpId> original;    ///< by op: the op of the given graph; kNone for a load
  std::vector<TensorId> loaded;  ///< by op: the storage that it loads; kNone for another op
  double price_of_first = 0;     ///< of one load of each: in the cost of every plan
};

/// The residents that it loads.
std::vector<TensorId> loaded_residents(const Graph& graph, const LoadGraph& loads);

/// Whether a plan may move the storage: a value with bytes that only one needed op makes, no output
/// of the graph, nothing in the caller's memory and nothing that an op waits for, as it may be
/// written while a copy of it begins.
std::vector<bool> movable(const Graph& graph);

/// Which ops may run again in a graph with loads.
enum class Reruns : std::uint8_t {
  none,
  of_others,  ///< that make no value that is loaded: those are had by their loads alone
  of_all      ///< a load right after a run of the value's op is of the value that is still there
};

/// `prices`: by storage, of one load, in the cost unit of the graph; none for one that is not
/// loaded. Precondition: those with a price are movable values or residents (residents.h).
LoadGraph with_loads(const Graph& graph, std::span<const std::optional<double>> prices,
                     Reruns reruns = Reruns::of_others);

/// The ops of a graph with loads.
struct LoadPlaces {
  std::vector<OpId> op;    ///< by op of the given graph
  std::vector<OpId> load;  ///< by storage; kNone: it is not loaded
};
LoadPlaces load_places(const Graph& graph, const LoadGraph& loads);

}  // namespace lowtide::offload
