#include "certify/check.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "bounds/certificate.h"
#include "bounds/price_bound.h"
#include "certify/accept.h"
#include "certify/digest.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "planner/planner.h"
#include "support/ask.h"
#include "support/brute_force.h"
#include "support/random_graph.h"
#include "support/recurrent_step.h"
#include "support/two_branches.h"

namespace lowtide::testing {
namespace {

struct Case {
  Graph graph;
  Plan plan;
  certify::Certificate certificate;
};

/// Without the exact programs, which may prove more than certificates.
planner::Planned searched(const Graph& graph, Bytes budget) {
  Control control;
  return planner::plan_within(graph, strategy::find_strategy("search"), budget,
                              {{"moves", 10}, {"bound", 0.001}, {"prove", 0}, {"moments", "off"}},
                              control);
}

/// A chain of twelve layers, planned within 70% of its memory.
const Case& chain_case() {
  static const Case made = [] {
    Graph graph = chain_graph(12);
    const planner::Planned planned = searched(graph, share_of_peak(graph, 0.7));
    return Case{std::move(graph), planned.plan.value(), *planned.certificate};
  }();
  return made;
}

/// The same with the proof by clusters, which has several prices.
const Case& clusters_case() {
  static const Case made = [] {
    Case of_clusters = chain_case();
    const Graph& graph = of_clusters.graph;
    const remat::StageGraph stages(graph);
    const Bytes budget = of_clusters.certificate.budget_bytes;
    bounds::PriceBound bound(stages, budget);
    bounds::raise_in_rounds(bound, 3e5, Control(), Control());
    of_clusters.certificate = bounds::certificate_of(graph, stages, bound, budget);
    return of_clusters;
  }();
  return made;
}

/// A recurrent step within 70% of its memory, whose bound is proved case by case.
const Case& divided_case() {
  static const Case made = [] {
    Graph graph = recurrent_step();
    const planner::Planned planned = searched(graph, share_of_peak(graph, 0.7));
    return Case{std::move(graph), planned.plan.value(), *planned.certificate};
  }();
  return made;
}

TEST(Certify, AcceptsWhatSearchWrites) {
  const auto& [graph, plan, certificate] = chain_case();
  const auto verdict = certify::certify(graph, plan, certificate);
  ASSERT_TRUE(is_accepted(verdict));
  const certify::Certified& certified = std::get<certify::Certified>(verdict);
  EXPECT_EQ(certified.cost, plan.cost);
  EXPECT_EQ(certified.peak_bytes, plan.peak_bytes);
  EXPECT_NEAR(certified.lower_bound, plan.lower_bound.value(), 1e-9 * plan.cost);
  EXPECT_LE(certified.lower_bound, certified.proved);
  EXPECT_GT(certified.lower_bound, keep_all(graph).cost + 1);  // it proves something
  EXPECT_NEAR(certified.gap(), plan.cost / *plan.lower_bound - 1, 1e-9);
}

TEST(Certify, AcceptsWhatSearchWritesCaseByCase) {
  const auto& [graph, plan, certificate] = divided_case();
  ASSERT_TRUE(certificate.split);
  const auto verdict = certify::certify(graph, plan, certificate);
  ASSERT_TRUE(is_accepted(verdict));
  EXPECT_EQ(std::get<certify::Certified>(verdict).lower_bound, plan.lower_bound.value());
  certify::Certificate undivided = certificate;
  undivided.split.reset();
  EXPECT_LT(std::get<double>(certify::proved_bound(graph, undivided)), 0.95 * *plan.lower_bound);
}

TEST(Certify, AcceptsWhatSearchWritesOnRandomGraphsAndStaysBelowTheOptimum) {
  int certificates = 0;
  int above_keep_all = 0;
  for (std::uint64_t seed = 0; certificates < 150; ++seed) {
    const Graph graph = random_graph(seed, {.ops = 5 + static_cast<int>(seed % 6)});
    const remat::StageGraph stages(graph);
    const std::vector<remat::Event> events = allowed_events(stages);
    if (events.size() < 3 || events.size() > 10) continue;
    const std::vector<Candidate> plans = all_plans(graph, stages, events);
    for (double share : {0.9, 0.7}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", share " << share);
      const Bytes budget = static_cast<Bytes>(share * static_cast<double>(plans.front().peak));
      const double optimum = least_cost(plans, &Candidate::in_place_peak, budget);
      if (optimum == kNever) continue;
      const planner::Planned planned = searched(graph, budget);
      if (!planned.plan) continue;  // the addresses do not fit
      ASSERT_NE(planned.certificate, nullptr);
      const auto verdict = certify::certify(graph, *planned.plan, *planned.certificate);
      ASSERT_TRUE(is_accepted(verdict));
      ++certificates;
      const double proved = std::get<certify::Certified>(verdict).proved;
      EXPECT_LE(proved, optimum * (1 + 1e-12));
      above_keep_all += proved > plans.front().cost * (1 + 1e-9);
    }
  }
  EXPECT_GT(above_keep_all, 30);
}

TEST(Certify, AcceptsLargerRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed, {.ops = 60});
    const planner::Planned planned = searched(graph, share_of_peak(graph, 0.85));
    if (!planned.plan) continue;
    ASSERT_NE(planned.certificate, nullptr);
    EXPECT_TRUE(is_accepted(certify::certify(graph, *planned.plan, *planned.certificate)));
  }
}

/// Strategies hold the inputs of such views; the bound must not rely on it.
TEST(Certify, AcceptsWhatSearchWritesWhereViewOpsTakeMemory) {
  int certificates = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    GraphData data = random_graph(seed, {.ops = 60}).data();
    for (Op& op : data.ops) {
      const bool makes_views = !op.outputs.empty() && data.tensors[op.outputs[0]].alias_of != kNone;
      if (makes_views && op.recomputable) op.workspace_bytes = 8;
    }
    const Graph graph(std::move(data));
    const planner::Planned planned = searched(graph, share_of_peak(graph, 0.95));
    if (!planned.plan || !planned.certificate) continue;
    EXPECT_TRUE(is_accepted(certify::certify(graph, *planned.plan, *planned.certificate)));
    ++certificates;
  }
  EXPECT_GT(certificates, 5);
}

// ---- Mutations ---------------------------------------------------------------------------------

using Change = std::function<void(Case&)>;

void expect_refusal(certify::Flaw flaw, const Change& change,
                    const Case& good = clusters_case()) {
  Case changed = good;
  change(changed);
  EXPECT_TRUE(
      is_refused_for(certify::certify(changed.graph, changed.plan, changed.certificate), flaw));
}

TEST(CertifyRefuses, AnotherGraph) {
  expect_refusal(certify::Flaw::wrong_graph, [](Case& c) { c.graph = chain_graph(13); });
  expect_refusal(certify::Flaw::wrong_graph, [](Case& c) { c.graph = chain_graph(12, 1032); });
  expect_refusal(certify::Flaw::wrong_graph, [](Case& c) { ++c.certificate.digest; });
}

TEST(CertifyRefuses, BadPrices) {
  for (double price : {-1e-12, kNever}) {
    expect_refusal(certify::Flaw::bad_price,
                   [price](Case& c) { c.certificate.proof.prices.front().price = price; });
  }
  expect_refusal(certify::Flaw::bad_price, [](Case& c) {
    for (auto& [op, price] : c.certificate.proof.prices) price = 1e308;
  });
  expect_refusal(certify::Flaw::bad_price, [](Case& c) {
    c.certificate.proof.prices.push_back(c.certificate.proof.prices.back());
  });
  expect_refusal(certify::Flaw::bad_index,
                 [](Case& c) { c.certificate.proof.prices.front().op = 10'000; });
}

/// The chain's layers have one order, so the same prices prove the same for any order.
void make_any_order(Case& c) {
  c.certificate.chain.emplace();
  for (const certify::Certificate::Price& price : c.certificate.proof.prices) {
    if (price.op < c.graph.num_ops()) c.certificate.chain->push_back(price.op);
  }
}

TEST(Certify, AcceptsAChainOfPricedOps) {
  Case changed = clusters_case();
  make_any_order(changed);
  ASSERT_GT(changed.certificate.chain->size(), 1u);
  const auto verdict = certify::certify(changed.graph, changed.plan, changed.certificate);
  ASSERT_TRUE(is_accepted(verdict));
  EXPECT_TRUE(std::get<certify::Certified>(verdict).any_order);
}

TEST(CertifyRefuses, BadChains) {
  expect_refusal(certify::Flaw::bad_chain, [](Case& c) {
    make_any_order(c);
    std::swap(c.certificate.chain->front(), c.certificate.chain->back());
  });
  expect_refusal(certify::Flaw::bad_chain, [](Case& c) {
    make_any_order(c);
    c.certificate.chain->push_back(c.certificate.chain->back());
  });
  expect_refusal(certify::Flaw::bad_chain, [](Case& c) {
    make_any_order(c);
    c.certificate.chain->push_back(c.graph.num_ops());
  });
  expect_refusal(certify::Flaw::bad_price, [](Case& c) {
    make_any_order(c);
    c.certificate.chain->pop_back();
  });
}

TEST(CertifyRefuses, AChainThroughTwoBranches) {
  const Graph graph = two_branches();
  certify::Certificate certificate = *searched(graph, 202).certificate;
  certificate.lower_bound = 5;
  certificate.proof.prices.clear();
  certificate.proof.clusters.clear();
  for (const std::vector<OpId>& good : {std::vector<OpId>{0, 2, 4}, {1, 3, 4}, {0, 4}, {}}) {
    certificate.chain = good;
    EXPECT_TRUE(is_accepted(certify::proved_bound(graph, certificate)));
  }
  for (const std::vector<OpId>& bad : {std::vector<OpId>{0, 1}, {0, 3, 4}, {2, 0}, {-1}}) {
    certificate.chain = bad;
    EXPECT_TRUE(
        is_refused_for(certify::proved_bound(graph, certificate), certify::Flaw::bad_chain));
  }
}

TEST(CertifyRefuses, BadClusters) {
  expect_refusal(certify::Flaw::overlap, [](Case& c) {
    c.certificate.proof.clusters.push_back({c.certificate.proof.clusters.front().front()});
  });
  expect_refusal(certify::Flaw::overlap, [](Case& c) {
    certify::Certificate::Rerun& rerun = c.certificate.proof.clusters.front().front();
    rerun.values.push_back(rerun.values.front());
  });
  expect_refusal(certify::Flaw::cluster_too_large, [](Case& c) {
    certify::Certificate::Cluster all;
    for (OpId op = 0; op <= OpId{certify::kMostClusterValues}; ++op) {
      all.push_back({{op}, {c.graph.op(op).outputs.front()}});
    }
    c.certificate.proof.clusters = {all};
  });
  expect_refusal(certify::Flaw::not_its_value,
                 [](Case& c) { c.certificate.proof.clusters.front().front().values = {0}; });
  expect_refusal(certify::Flaw::bad_index,
                 [](Case& c) { c.certificate.proof.clusters.front().front().ops = {-1}; });
  expect_refusal(certify::Flaw::bad_index, [](Case& c) {
    c.certificate.proof.clusters.front().front().values = {1'000'000};
  });
}

TEST(CertifyRefuses, CasesThatAreNotAllPlans) {
  const auto expect_bad_split =
      [](const std::function<void(certify::Certificate::Split&)>& change) {
        expect_refusal(
            certify::Flaw::bad_split, [&](Case& c) { change(*c.certificate.split); },
            divided_case());
      };
  for (std::size_t k = 0; k < divided_case().certificate.split->cases.size(); ++k) {
    expect_bad_split([&](auto& split) { split.cases.erase(split.cases.begin() + k); });
  }
  expect_bad_split([](auto& split) { split.cases.push_back(split.cases.back()); });
  expect_bad_split([](auto& split) { split.cases.back().absent = 10'000; });
  expect_bad_split([](auto& split) { split.value = 0; });  // a parameter
  expect_refusal(
      certify::Flaw::bad_index, [](Case& c) { c.certificate.split->value = -1; }, divided_case());
  expect_refusal(certify::Flaw::bad_split, make_any_order, divided_case());
}

TEST(CertifyRefuses, ClaimsBeyondACase) {
  for (std::size_t k = 0; k < divided_case().certificate.split->cases.size(); ++k) {
    expect_refusal(
        certify::Flaw::bound_too_high,
        [&](Case& c) { c.certificate.split->cases[k].proof.prices.clear(); }, divided_case());
  }
}

/// In a case the split value is no choice any more, and the added rerun is no op of all plans.
TEST(CertifyRefuses, WhatACaseHasDecided) {
  const TensorId value = divided_case().certificate.split->value;
  const OpId maker = divided_case().graph.producer(value);
  expect_refusal(
      certify::Flaw::runs_once,
      [&](Case& c) { c.certificate.split->cases.back().proof.clusters = {{{{maker}, {value}}}}; },
      divided_case());
  expect_refusal(certify::Flaw::bad_index, [](Case& c) {
    c.certificate.proof.prices.push_back({c.graph.num_ops() + 1, 1e-9});
  });
}

TEST(CertifyRefuses, GlueThatIsNotDominated) {
  // Two forward ops: the backward pass reads the value between them too.
  expect_refusal(certify::Flaw::bad_glue, [](Case& c) {
    c.certificate.proof.clusters = {{{{0, 1}, {c.graph.op(1).outputs.front()}}}};
  });
}

TEST(CertifyRefuses, WhatMayRunOnlyOnce) {
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 8), value("b", 8)};
  data.ops = {op("once", {0}, {1}), op("last", {1}, {2})};
  data.ops.front().recomputable = false;
  data.outputs = {2};
  const Graph graph(std::move(data));
  certify::Certificate certificate = *searched(graph, 100).certificate;
  EXPECT_TRUE(is_accepted(certify::proved_bound(graph, certificate)));
  certificate.proof.clusters = {{{{0}, {1}}}};
  EXPECT_TRUE(is_refused_for(certify::proved_bound(graph, certificate), certify::Flaw::runs_once));
}

TEST(CertifyRefuses, ClaimsBeyondTheProof) {
  expect_refusal(certify::Flaw::bound_too_high,
                 [](Case& c) { c.certificate.lower_bound += 0.001; });
  // Prices at their best prove less when they change.
  expect_refusal(certify::Flaw::bound_too_high, [](Case& c) {
    for (auto& [op, price] : c.certificate.proof.prices) price *= 2;
  });
  expect_refusal(certify::Flaw::bound_too_high,
                 [](Case& c) { c.certificate.proof.clusters.clear(); });
  expect_refusal(certify::Flaw::bound_too_high, [](Case& c) {
    c.certificate.budget_bytes += 1024;
    c.plan.budget_bytes = c.certificate.budget_bytes;
  });
}

TEST(CertifyRefuses, AnotherBudget) {
  expect_refusal(certify::Flaw::wrong_budget, [](Case& c) { c.plan.budget_bytes.value() += 1; });
  expect_refusal(certify::Flaw::wrong_budget, [](Case& c) { c.plan.budget_bytes.reset(); });
  expect_refusal(certify::Flaw::wrong_budget, [](Case& c) { c.certificate.budget_bytes -= 1; });
  expect_refusal(certify::Flaw::wrong_budget,
                 [](Case& c) { c.certificate.budget_bytes = std::numeric_limits<Bytes>::min(); });
}

TEST(CertifyRefuses, BadPlans) {
  expect_refusal(certify::Flaw::bad_plan,
                 [](Case& c) { c.plan.actions.erase(c.plan.actions.begin()); });
  expect_refusal(certify::Flaw::bad_plan, [](Case& c) {
    while (c.plan.actions.back().verb != Verb::run) c.plan.actions.pop_back();
    c.plan.actions.pop_back();
  });
  expect_refusal(certify::Flaw::bad_plan, [](Case& c) { c.plan.actions.push_back(run(10'000)); });
  expect_refusal(certify::Flaw::bad_plan, [](Case& c) { c.plan.actions.push_back(free_of(0)); });
  expect_refusal(certify::Flaw::plan_costs_more, [](Case& c) { c.plan.cost *= 1 - 1e-6; });
  expect_refusal(certify::Flaw::plan_needs_more, [](Case& c) { c.plan.peak_bytes -= 1; });
  expect_refusal(certify::Flaw::plan_needs_more, [](Case& c) {
    c.plan = keep_all(c.graph);
    c.plan.budget_bytes = c.certificate.budget_bytes;
  });
}

TEST(Certify, SaysWhenAPlanHasAnOrderOfItsOwn) {
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 8), value("b", 8), value("c", 8)};
  data.ops = {op("a", {0}, {1}), op("b", {0}, {2}), op("c", {1, 2}, {3})};
  data.outputs = {3};
  const Graph graph(std::move(data));
  const planner::Planned planned = searched(graph, 100);
  Plan plan = planned.plan.value();
  const auto keeps_order = [&] {
    return std::get<certify::Certified>(certify::certify(graph, plan, *planned.certificate))
        .keeps_order;
  };
  EXPECT_TRUE(keeps_order());
  std::swap(plan.actions[0], plan.actions[1]);
  EXPECT_FALSE(keeps_order());
}

/// Replay, verifier and checker agree on the cost and memory of random plans.
TEST(Certify, CountsRandomPlansAsReplayDoes) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed);
    Plan plan = with_in_place(graph, lower(graph, random_executions(graph, seed)));
    plan.budget_bytes = plan.peak_bytes;
    const certify::Certificate empty{.graph = graph.name(),
                                     .num_ops = graph.num_ops(),
                                     .num_tensors = graph.num_tensors(),
                                     .digest = certify::digest(graph),
                                     .budget_bytes = plan.peak_bytes,
                                     .lower_bound = 0,
                                     .proof = {}};
    const auto verdict = certify::certify(graph, plan, empty);
    ASSERT_TRUE(is_accepted(verdict));
    EXPECT_EQ(std::get<certify::Certified>(verdict).peak_bytes, plan.peak_bytes);
    EXPECT_NEAR(std::get<certify::Certified>(verdict).cost, plan.cost, 1e-9 * plan.cost);
    plan.peak_bytes -= 1;
    EXPECT_TRUE(
        is_refused_for(certify::certify(graph, plan, empty), certify::Flaw::plan_needs_more));
  }
}

}  // namespace
}  // namespace lowtide::testing
