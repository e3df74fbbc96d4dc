#include "ordering/before_cut.h"

#include <algorithm>

namespace lowtide::ordering {

BeforeCut::BeforeCut(const remat::StageGraph& graph, const Precedence& precedence, int stage)
    : node_of_(graph.num_stages(), sink_),
      next_(2 + graph.end()),
      flow_(next_ + graph.num_values() + static_cast<int>(graph.stage(stage).overlays.size())) {
  place(graph, precedence, stage);
  for (int earlier : precedence.before(stage)) force(source_, node_of_[earlier]);
  for (int i = 0; i < graph.end(); ++i) {
    for (int earlier : precedence.before(i)) force(node_of_[i], node_of_[earlier]);
  }
  for (const remat::StageValue& value : graph.values()) {
    add_cost(node_of_[value.producer], value.bytes, value.readers);
  }
  const remat::Stage& here = graph.stage(stage);
  own_ += graph.resident_bytes() + here.workspace;
  for (int v : here.outputs) own_ += graph.value(v).bytes;
  for (const auto& [output, input] : here.overlays) {
    own_ -= graph.value(output).bytes;
    std::vector<int> others = graph.value(input).readers;
    std::erase(others, stage);
    add_cost(source_, graph.value(output).bytes, others);
  }
  flow_bytes_ = flow_.run(source_, sink_);
  behind_ = flow_.sink_side(sink_);
}

/// The stage itself, its successors in the precedence, and the end are the sink.
void BeforeCut::place(const remat::StageGraph& graph, const Precedence& precedence, int stage) {
  const std::vector<bool> before = precedence.all_before(stage);
  const std::vector<bool> after = precedence.all_after(stage);
  for (int i = 0; i < graph.end(); ++i) {
    if (i != stage && !after[i]) node_of_[i] = before[i] ? source_ : 2 + i;
  }
}

/// If `from` is in the set, `to` is.
void BeforeCut::force(int from, int to) {
  if (from == to || from == sink_ || to == source_) return;
  flow_.add_edge(from, to, solver::MaxFlow::kUnlimited);
}

/// Bytes that count when `from` is in the set and one of `readers` is not.
void BeforeCut::add_cost(int from, Bytes bytes, const std::vector<int>& readers) {
  const int node = next_++;
  if (bytes == 0 || from == sink_) return;
  const auto is_behind = [&](int reader) { return node_of_[reader] == sink_; };
  if (std::ranges::any_of(readers, is_behind)) {
    if (from == source_) own_ += bytes;
    if (from != source_) flow_.add_edge(from, sink_, bytes);
    return;
  }
  std::vector<int> open;
  for (int reader : readers) {
    if (node_of_[reader] != source_) open.push_back(node_of_[reader]);
  }
  if (open.empty()) return;
  flow_.add_edge(from, node, bytes);
  for (int reader : open) force(node, reader);
}

/// Continues from the existing flow.
Bytes BeforeCut::least_with(int from, int to) const {
  solver::MaxFlow flow = flow_;
  flow.add_edge(from, to, solver::MaxFlow::kUnlimited);
  return least() + flow.run(source_, sink_);
}

}  // namespace lowtide::ordering
