#include "bounds/certificate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "certify/digest.h"

namespace lowtide::bounds {
namespace {

/// The chain of ops glued to `op`, from the first on; then `op` itself.
std::vector<OpId> chain_of(const remat::StageGraph& stages,
                           const std::map<int, int>& maker_of_glued, const BoundOp& op) {
  std::vector<OpId> chain;
  for (int stage = op.stage;;) {
    chain.push_back(stages.stage(stage).op);
    const auto maker = maker_of_glued.find(stage);
    if (maker == maker_of_glued.end()) break;
    stage = maker->second;
  }
  std::ranges::reverse(chain);
  return chain;
}

/// The number of a stage in certificates: the op of the stage. The end of the sequence, and the
/// stage of a case's rerun, come after all ops.
OpId priced_op(const Graph& graph, const remat::StageGraph& stages, int t) {
  if (t == stages.end()) return graph.num_ops();
  const OpId op = stages.stage(t).op;
  return op == kNone ? graph.num_ops() + 1 : op;
}

}  // namespace

certify::Certificate::Proof proof_of(const Graph& graph, const remat::StageGraph& stages,
                                     const PriceBound& bound) {
  certify::Certificate::Proof proof;
  for (int t = 0; t < stages.num_stages(); ++t) {
    const double price = bound.prices().each()[t];
    if (price > 0) proof.prices.push_back({priced_op(graph, stages, t), price});
  }
  std::map<int, int> maker_of_glued;  // by the stage that reads the value
  for (int v : bound.glued()) {
    maker_of_glued[stages.value(v).last_reader()] = stages.value(v).producer;
  }
  for (const std::vector<BoundOp>& ops : bound.clusters()) {
    certify::Certificate::Cluster& cluster = proof.clusters.emplace_back();
    for (const BoundOp& op : ops) {
      cluster.push_back({chain_of(stages, maker_of_glued, op), {}});
      for (int v : op.outputs) cluster.back().values.push_back(stages.value(v).tensor);
    }
  }
  return proof;
}

namespace {

certify::Certificate::Proof proof_of(const Graph& graph, const remat::StageGraph& stages,
                                     const MomentBound& bound) {
  certify::Certificate::Cluster all;
  for (int i = 0; i < bound.stage; ++i) {
    const remat::Stage& stage = stages.stage(i);
    if (stage.latest == i || stage.outputs.empty()) continue;
    all.push_back({{stage.op}, {}});
    for (int v : stage.outputs) all.back().values.push_back(stages.value(v).tensor);
  }
  return {{{priced_op(graph, stages, bound.stage), bound.price}}, {std::move(all)}};
}

certify::Certificate certificate_with(const Graph& graph, Bytes budget, double lower_bound,
                                      certify::Certificate::Proof proof) {
  return {.graph = graph.name(),
          .num_ops = graph.num_ops(),
          .num_tensors = graph.num_tensors(),
          .digest = certify::digest(graph),
          .budget_bytes = budget,
          .lower_bound = lower_bound,
          .proof = std::move(proof)};
}

}  // namespace

certify::Certificate certificate_of(const Graph& graph, const remat::StageGraph& stages,
                                    const PriceBound& bound, Bytes budget) {
  return certificate_with(graph, budget, bound.value(), proof_of(graph, stages, bound));
}

std::shared_ptr<const certify::Certificate> shared_certificate(const Graph& graph,
                                                               const remat::StageGraph& stages,
                                                               const MomentBound& bound,
                                                               Bytes budget) {
  return std::make_shared<const certify::Certificate>(
      certificate_with(graph, budget, bound.value, proof_of(graph, stages, bound)));
}

std::shared_ptr<const certify::Certificate> shared_certificate(const Graph& graph,
                                                               const remat::StageGraph& stages,
                                                               const PriceBound& bound,
                                                               Bytes budget) {
  return std::make_shared<const certify::Certificate>(certificate_of(graph, stages, bound, budget));
}

std::vector<double> op_prices(const certify::Certificate& certificate) {
  std::vector<double> prices(static_cast<std::size_t>(certificate.num_ops) + 1);
  for (const auto& [op, price] : certificate.proof.prices) {
    prices[static_cast<std::size_t>(op)] = price;
  }
  return prices;
}

std::vector<double> stage_prices(const remat::StageGraph& stages,
                                 std::span<const double> op_prices) {
  std::vector<double> prices(stages.num_stages(), op_prices.back());
  for (int t = 0; t < stages.end(); ++t) {
    prices[t] = op_prices[static_cast<std::size_t>(stages.stage(t).op)];
  }
  return prices;
}

}  // namespace lowtide::bounds
