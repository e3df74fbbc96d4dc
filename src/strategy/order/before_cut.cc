#include "strategy/order/before_cut.h"

namespace lowtide {

BeforeCut::BeforeCut(const StageGraph& graph, const Precedence& precedence, int stage)
    : source_(graph.num_stages()),
      sink_(source_ + 1),
      flow_(sink_ + 1 + graph.num_values() +
            static_cast<int>(graph.stage(stage).overlays.size())) {
  const Stage& here = graph.stage(stage);
  force(stage, sink_);  // and so what must come after, by the precedence
  force(graph.end(), sink_);
  for (int earlier : precedence.before(stage)) force(source_, earlier);
  for (int i = 0; i < graph.end(); ++i) {
    for (int earlier : precedence.before(i)) force(i, earlier);
  }
  int node = sink_ + 1;
  for (const StageValue& value : graph.values()) {
    add_cost(node++, value.producer, value.bytes, value.readers);
  }
  own_ = graph.resident_bytes() + here.workspace;
  for (int v : here.outputs) own_ += graph.value(v).bytes;
  for (const auto& [output, input] : here.overlays) {
    own_ -= graph.value(output).bytes;
    std::vector<int> others = graph.value(input).readers;
    std::erase(others, stage);
    add_cost(node++, source_, graph.value(output).bytes, others);
  }
  flow_bytes_ = flow_.run(source_, sink_);
  behind_ = flow_.sink_side(sink_);
}

/// Bytes that count when `from` is in the set and one of `readers` is not.
void BeforeCut::add_cost(int node, int from, Bytes bytes, const std::vector<int>& readers) {
  if (bytes == 0 || readers.empty()) return;
  flow_.add_edge(from, node, bytes);
  for (int reader : readers) force(node, reader);
}

/// Goes on from the flow that there is.
Bytes BeforeCut::least_with(int from, int to) const {
  MaxFlow flow = flow_;
  flow.add_edge(from, to, MaxFlow::kUnlimited);
  return least() + flow.run(source_, sink_);
}

}  // namespace lowtide
