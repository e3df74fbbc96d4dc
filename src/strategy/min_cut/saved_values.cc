#include "strategy/min_cut/saved_values.h"

#include "solver/max_flow.h"

namespace lowtide::strategy::min_cut {

/// A value on the sink's side is needed after the forward pass. It is either cut, and so saved, or
/// its stage runs again and needs its inputs.
std::vector<bool> fewest_saved(const remat::StageGraph& graph, int forward_end,
                               const std::vector<bool>& once, std::vector<bool> kept) {
  const int source = 0, sink = 1;
  const auto in = [&](int v) { return 2 + 2 * v; };
  const auto out = [&](int v) { return 3 + 2 * v; };
  const auto run_of = [&](int i) { return 2 + 2 * graph.num_values() + i; };
  solver::MaxFlow flow(run_of(forward_end));
  for (int i = 0; i < forward_end; ++i) {
    if (once[i]) flow.add_edge(source, run_of(i), solver::MaxFlow::kUnlimited);
    for (int v : graph.stage(i).inputs)
      flow.add_edge(out(v), run_of(i), solver::MaxFlow::kUnlimited);
    for (int v : graph.stage(i).outputs) {
      const remat::StageValue& value = graph.value(v);
      flow.add_edge(run_of(i), in(v), solver::MaxFlow::kUnlimited);
      flow.add_edge(in(v), out(v), kept[v] ? 0 : value.bytes);
      if (value.last_reader() >= forward_end)
        flow.add_edge(out(v), sink, solver::MaxFlow::kUnlimited);
    }
  }
  flow.run(source, sink);
  const std::vector<bool> needed = flow.sink_side(sink);
  for (int v = 0; v < graph.num_values(); ++v) {
    if (needed[out(v)] && !needed[in(v)]) kept[v] = true;
  }
  return kept;
}

}  // namespace lowtide::strategy::min_cut
