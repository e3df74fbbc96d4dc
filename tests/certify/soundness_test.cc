// The bound of any accepted prices and clusters must not exceed the best of all plans.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "bounds/split.h"
#include "certify/accept.h"
#include "certify/digest.h"
#include "certify/relaxed.h"
#include "plan/replay.h"
#include "support/brute_force.h"
#include "support/cheapest_sequence.h"
#include "support/random_graph.h"

namespace lowtide::testing {
namespace {

/// The proof about all plans, then those about the cases.
std::vector<certify::Certificate::Proof*> proofs(certify::Certificate& c) {
  std::vector<certify::Certificate::Proof*> all{&c.proof};
  if (c.split) {
    for (certify::Certificate::Case& one : c.split->cases) all.push_back(&one.proof);
  }
  return all;
}

/// Random certificates of one graph: some priced stages, and reruns of one op or of a chain, put
/// into clusters at random. They are made acceptable only as far as any writer would do it.
class Author {
 public:
  Author(const Graph& graph, std::uint64_t seed) : graph_(graph), random_(seed) {
    digest_ = certify::digest(graph);
    double cost = 0;
    double bytes = 1;
    for (const Op& op : graph.ops()) cost += op.cost;
    for (const Tensor& tensor : graph.tensors()) bytes += static_cast<double>(tensor.bytes);
    unit_ = 0.1 * cost / bytes;
  }

  certify::Certificate write(Bytes budget) {
    certify::Certificate c{.graph = graph_.name(),
                           .num_ops = graph_.num_ops(),
                           .num_tensors = graph_.num_tensors(),
                           .digest = digest_,
                           .budget_bytes = budget,
                           .lower_bound = 0,
                           .proof = {}};
    c.proof = write_proof();
    return c;
  }

  /// The cases of some value that can be split, or nothing.
  std::optional<certify::Certificate::Split> write_split(const remat::StageGraph& stages) {
    const int value = below(stages.num_values());
    const remat::StageValue& v = stages.value(value);
    if (stages.stage(v.producer).outputs.size() != 1 || v.readers.empty()) return std::nullopt;
    certify::Certificate::Split split{v.tensor, {}};
    for (int absent : bounds::absences(stages, value)) {
      split.cases.push_back({absent == kNone ? kNone : stages.stage(absent).op, write_proof()});
      if (absent == kNone) continue;
      split.cases.back().proof.prices.push_back({graph_.num_ops() + 1, price()});
    }
    return split;
  }

  /// Ops that each read an output of the one before, perhaps through other ops; all are needed.
  std::vector<OpId> chain() {
    std::vector<OpId> backwards;
    const TensorId output = graph_.outputs()[below(static_cast<int>(graph_.outputs().size()))];
    for (OpId op = graph_.producer(output); op != kNone; op = maker_of_an_input(op)) {
      if (below(3) > 0) backwards.push_back(op);
    }
    return {backwards.rbegin(), backwards.rend()};
  }

  /// Changes one price, which may raise or lower the bound.
  void change_a_price(certify::Certificate& c) {
    const std::vector<certify::Certificate::Proof*> all = proofs(c);
    std::vector<certify::Certificate::Price>& prices =
        all[below(static_cast<int>(all.size()))]->prices;
    if (prices.empty()) return;
    double& changed = prices[below(static_cast<int>(prices.size()))].price;
    changed = below(3) == 0 ? price() : changed * 0.25 * (1 + below(8));
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  /// At this price, holding a value over some stages costs about as much as making it again.
  double price() { return below(4) == 0 ? 0 : unit_ * (1 + below(30)); }

  certify::Certificate::Proof write_proof() {
    certify::Certificate::Proof proof;
    for (OpId op = 0; op <= graph_.num_ops(); ++op) {
      const bool may_end_a_stage = op == graph_.num_ops() || !graph_.is_view_op(op);
      if (may_end_a_stage && below(3) == 0) proof.prices.push_back({op, price()});
    }
    std::vector<OpId> ops(graph_.ops().size());
    for (OpId op = 0; op < graph_.num_ops(); ++op) ops[op] = op;
    std::ranges::shuffle(ops, random_);
    for (OpId op : ops) add_rerun(proof, op);
    return proof;
  }

  void add_rerun(certify::Certificate::Proof& proof, OpId op) {
    certify::Certificate::Rerun rerun{{op}, {}};
    for (TensorId out : graph_.op(op).outputs) {
      if (graph_.storage(out) == out && below(4) > 0) rerun.values.push_back(out);
    }
    if (rerun.values.empty() || !graph_.op(op).recomputable || below(6) == 0) return;
    while (below(2) == 0 && grow(rerun)) {
    }
    if (proof.clusters.empty() || below(3) == 0) proof.clusters.emplace_back();
    proof.clusters[below(static_cast<int>(proof.clusters.size()))].push_back(std::move(rerun));
  }

  /// Puts a maker of one of the rerun's inputs before it.
  bool grow(certify::Certificate::Rerun& rerun) {
    const OpId maker = maker_of_an_input(rerun.ops.front());
    if (maker == kNone) return false;
    rerun.ops.insert(rerun.ops.begin(), maker);
    return true;
  }

  OpId maker_of_an_input(OpId op) {
    const std::vector<TensorId>& inputs = graph_.op(op).inputs;
    if (inputs.empty()) return kNone;
    return graph_.producer(graph_.storage(inputs[below(static_cast<int>(inputs.size()))]));
  }

  const Graph& graph_;
  std::mt19937_64 random_;
  std::uint64_t digest_;
  double unit_;
};

/// Removes from one of a certificate's proofs every price and rerun that the checker refuses when
/// tried alone, so that the rest is accepted.
void mend(const Graph& graph, certify::Certificate& c, certify::Certificate::Proof& proof) {
  const certify::Certificate::Proof written = std::exchange(proof, {});
  const auto is_refused = [&] {
    return std::holds_alternative<certify::Refused>(certify::proved_bound(graph, c));
  };
  for (const certify::Certificate::Price& price : written.prices) {
    proof.prices.push_back(price);
    if (is_refused()) proof.prices.pop_back();
  }
  for (const certify::Certificate::Cluster& cluster : written.clusters) {
    proof.clusters.emplace_back();
    for (const certify::Certificate::Rerun& rerun : cluster) {
      proof.clusters.back().push_back(rerun);
      if (is_refused()) proof.clusters.back().pop_back();
    }
  }
}

struct Tally {
  int certificates = 0;
  int above_keep_all = 0;  ///< prove that something must run again
  int tight = 0;           ///< nearly the optimum
  int glued = 0;           ///< have a chain
  int split = 0;           ///< prove more case by case than at once
};

/// Raises the bound of a random certificate price by price, never above `least`; returns the final
/// bound.
double climb(const Graph& graph, Author& author, double least, certify::Certificate& certificate) {
  for (certify::Certificate::Proof* proof : proofs(certificate)) mend(graph, certificate, *proof);
  double best = -1;
  for (int step = 0; step < 40; ++step) {
    certify::Certificate changed = certificate;
    author.change_a_price(changed);
    const auto verdict = certify::proved_bound(graph, changed);
    EXPECT_TRUE(is_accepted(verdict));
    if (!std::holds_alternative<double>(verdict)) break;
    const double proved = std::get<double>(verdict);
    EXPECT_LE(proved, least * (1 + 1e-12));
    if (proved < best) continue;
    best = proved;
    certificate = std::move(changed);
  }
  return best;
}

/// The bound without its cases.
double undivided(const Graph& graph, certify::Certificate certificate) {
  certificate.split.reset();
  return std::get<double>(certify::proved_bound(graph, certificate));
}

/// Random certificates at one budget; changes prices as long as that raises the bound.
void try_budget(const Graph& graph, Author& author, const std::vector<Candidate>& plans,
                Bytes budget, Tally& tally) {
  const remat::StageGraph stages(graph);
  const double optimum = least_cost(plans, &Candidate::in_place_peak, budget);
  const double keep_all = plans.front().cost;
  for (int attempt = 0; attempt < 6; ++attempt) {
    certify::Certificate certificate = author.write(budget);
    if (attempt % 2 == 1) certificate.split = author.write_split(stages);
    const double best = climb(graph, author, optimum, certificate);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "budget " << budget;
    tally.split += best > undivided(graph, certificate) * (1 + 1e-9);
    ++tally.certificates;
    tally.above_keep_all += optimum < kNever && best > keep_all * (1 + 1e-9);
    tally.tight += optimum < kNever && best > keep_all && best > 0.999 * optimum;
    for (const auto& cluster : certificate.proof.clusters) {
      tally.glued += std::ranges::any_of(cluster, [](const auto& r) { return r.ops.size() > 1; });
    }
  }
}

/// At the smallest peaks of plans, where most reruns are needed.
void try_graph(const Graph& graph, std::uint64_t seed, int most_events, int& graphs,
               Tally& tally) {
  const remat::StageGraph stages(graph);
  const std::vector<remat::Event> events = allowed_events(stages);
  if (events.size() < 3 || static_cast<int>(events.size()) > most_events) return;
  ++graphs;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  const std::vector<Candidate> plans = all_plans(graph, stages, events);
  std::set<Bytes> peaks;
  for (const Candidate& plan : plans) peaks.insert(plan.in_place_peak);
  Author author(graph, seed);
  int budgets = 0;
  for (Bytes peak : peaks) {
    if (budgets++ == 5 || ::testing::Test::HasFatalFailure()) return;
    try_budget(graph, author, plans, peak, tally);
  }
}

void try_graphs(std::uint64_t first_seed, int wanted, const RandomGraphOptions& base,
                Tally& tally) {
  int graphs = 0;
  for (std::uint64_t seed = first_seed; graphs < wanted; ++seed) {
    RandomGraphOptions options = base;
    options.ops = 5 + static_cast<int>(seed % 6);
    const Graph graph = random_graph(seed, options);
    try_graph(graph, seed, 10, graphs, tally);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(CertificateSoundness, WhateverIsAcceptedIsBelowTheBestPlan) {
  Tally tally;
  try_graphs(0, 300, {}, tally);
  EXPECT_GT(tally.above_keep_all, 100);
  EXPECT_GT(tally.tight, 15);
  EXPECT_GT(tally.glued, 50);
  EXPECT_GT(tally.split, 50);
}

struct AnyOrderTally {
  int certificates = 0;
  int above_keep_all = 0;  ///< prove that something must run again
  int fixed_above = 0;     ///< graphs and budgets where another order is cheaper
};

/// Checks budgets at which some op must run again in every order.
void try_any_order(const Graph& graph, std::uint64_t seed, AnyOrderTally& tally) {
  const CheapestSequence cheapest(graph);
  const KeepAll reference = keep_all_reference(graph);
  Author author(graph, seed);
  int budgets = 0;
  for (Bytes budget = reference.peak_bytes; budget > 0 && budgets < 3; budget -= 1 + budget / 40) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", budget " << budget);
    const double least = cheapest.cost(budget, Sequences::any_order);
    if (least == kNever) return;
    if (least <= reference.cost) continue;
    ++budgets;
    tally.fixed_above += cheapest.cost(budget, Sequences::fixed_order) > least;
    for (int attempt = 0; attempt < 6; ++attempt) {
      certify::Certificate certificate = author.write(budget);
      certificate.chain = author.chain();
      const double best = climb(graph, author, least, certificate);
      ASSERT_FALSE(::testing::Test::HasFailure());
      ++tally.certificates;
      tally.above_keep_all += best > reference.cost * (1 + 1e-9);
    }
  }
}

/// Calls `try_one` with graphs that CheapestSequence takes.
template <typename Try>
void for_small_graphs(std::uint64_t seeds, const Try& try_one) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    try_one(random_step(seed, 4, 3), seed);
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
    const Graph graph = random_graph(seed, {.ops = 7, .views = false, .effects = false});
    const auto is_value = [](const Tensor& t) { return t.kind == Kind::value; };
    if (std::ranges::count_if(graph.tensors(), is_value) > 10) continue;
    try_one(graph, seed);
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
  }
}

/// Certificates for any order against the cheapest of all sequences.
TEST(CertificateSoundness, AlsoForAnyOrder) {
  AnyOrderTally tally;
  for_small_graphs(150, [&](const Graph& graph, std::uint64_t seed) {
    try_any_order(graph, seed, tally);
  });
  RecordProperty("certificates", tally.certificates);
  RecordProperty("above_keep_all", tally.above_keep_all);
  RecordProperty("fixed_above", tally.fixed_above);
  EXPECT_GT(tally.above_keep_all, 20);
  EXPECT_GT(tally.fixed_above, 5);
}

/// The same with costs times `weight`.
Graph weighed(const Graph& graph, double weight) {
  GraphData data = graph.data();
  for (Op& op : data.ops) op.cost *= weight;
  return Graph(std::move(data));
}

/// With residents that take no memory, as if each were away whenever that helps.
Graph without_residents(const Graph& graph) {
  GraphData data = graph.data();
  for (Tensor& tensor : data.tensors) {
    if (tensor.kind == Kind::resident) tensor.bytes = 0;
  }
  return Graph(std::move(data));
}

/// The least weighted sum of runs and of copies back, with no time for copies out or of residents,
/// and no memory for copies under way or residents that move: no plan ends earlier.
double least_with_moves(const Graph& graph, const certify::Certificate::Moves& moves, Bytes budget,
                        Sequences which) {
  std::vector<double> loads;
  for (const Tensor& tensor : graph.tensors()) {
    loads.push_back((1 - moves.weight) * moves.lanes.in.time(tensor.bytes));
  }
  const Graph counted = moves.residents ? without_residents(graph) : graph;
  return CheapestSequence(weighed(counted, moves.weight), loads).cost(budget, which);
}

struct MovesTally {
  int certificates = 0;
  int above_runs = 0;  ///< prove more than that each op runs once
};

void try_moves(const Graph& graph, std::uint64_t seed, MovesTally& tally) {
  const KeepAll reference = keep_all_reference(graph);
  const double weight = static_cast<double>(1 + seed % 4) / 5;
  const Lanes lanes{.out = {}, .in = {.per_byte = static_cast<double>(1 + seed % 7) / 64}};
  const certify::Certificate::Moves moves{lanes, weight, /*residents=*/seed % 3 == 0};
  const certify::Relaxed problem = certify::relaxed(graph, moves);
  Author author(problem.graph, seed);
  int budgets = 0;
  for (Bytes budget = reference.peak_bytes; budget > 0 && budgets < 3; budget -= 1 + budget / 10) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", budget " << budget);
    for (const bool any_order : {false, true}) {
      const double least = least_with_moves(
          graph, moves, budget, any_order ? Sequences::any_order : Sequences::fixed_order);
      if (least == kNever) return;
      budgets += any_order;
      for (int attempt = 0; attempt < 3; ++attempt) {
        certify::Certificate certificate = author.write(budget);
        certificate.num_ops = graph.num_ops();
        certificate.num_tensors = graph.num_tensors();
        certificate.digest = certify::digest(graph);
        certificate.moves = moves;
        if (any_order) certificate.chain = author.chain();
        const double best = climb(graph, author, least, certificate);
        ASSERT_FALSE(::testing::Test::HasFailure());
        ++tally.certificates;
        tally.above_runs += best > weight * reference.cost * (1 + 1e-9);
      }
    }
  }
}

/// Certificates for plans that move values, against the cheapest of all sequences with loads.
TEST(CertificateSoundness, AlsoWithMoves) {
  MovesTally tally;
  for_small_graphs(120, [&](const Graph& graph, std::uint64_t seed) {
    try_moves(graph, seed, tally);
  });
  RecordProperty("certificates", tally.certificates);
  RecordProperty("above_runs", tally.above_runs);
  EXPECT_GT(tally.above_runs, 0);
}

TEST(CertificateSoundness, AlsoOnTrainingSteps) {
  Tally tally;
  int graphs = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    try_graph(random_step(seed, 3, 2), seed, 12, graphs, tally);
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
  }
  EXPECT_EQ(graphs, 60);
  EXPECT_GT(tally.above_keep_all, 10);
  EXPECT_GT(tally.glued, 20);
}

TEST(CertificateSoundness, AlsoWithoutViewsAndEffects) {
  Tally tally;  // more reruns are possible, and more chains
  try_graphs(5000, 250, {.views = false, .effects = false}, tally);
  EXPECT_GT(tally.above_keep_all, 100);
  EXPECT_GT(tally.glued, 50);
}

}  // namespace
}  // namespace lowtide::testing
