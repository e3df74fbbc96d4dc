#include "fuzz/faults.h"

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "base/error.h"
#include "cost/profile.h"
#include "fuzz/documents.h"
#include "fuzz/fault.h"
#include "graph/io.h"
#include "plan/io.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "planner/planner.h"
#include "support/ask.h"

namespace lowtide::testing {
namespace {

constexpr const char* kSource = "fuzzed";

/// The result of read(); nothing when it refuses the text correctly.
template <typename Read>
auto read_or_refuse(Read read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const InputError& error) {
    require(std::string_view(error.what()).starts_with(kSource),
            fmt::format("a refusal that does not name the source: {}", error.what()));
    return std::nullopt;
  }
}

/// Returns whether the work succeeded, rather than refused.
bool done_or_refused(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const InputError&) {
    return false;
  }
}

void require_valid(const Graph& graph, const Plan& plan, std::string_view what) {
  const auto violation = verify(graph, plan);
  require(!violation, fmt::format("{}: {}", what, violation ? violation->message : ""));
}

// ---- Graphs ------------------------------------------------------------------------------------

constexpr int kMostOps = 60;  // in planned graphs: more takes too long for thousands of graphs

class Asker {
 public:
  Asker(const Graph& graph, std::uint64_t seed)
      : graph_(graph), random_(seed), reference_(keep_all_reference(graph)) {}

  void ask_some() {
    constexpr int kAsked = 2;
    for (int i = 0; i < kAsked; ++i) ask(some_strategy(), some_budget());
  }

 private:
  const strategy::Strategy& some_strategy() {
    for (;;) {
      const strategy::Strategy& strategy =
          strategy::strategies()[random_() % strategy::strategies().size()];
      if (!strategy.name.starts_with("checkmate")) return strategy;
    }
  }

  Bytes some_budget() {
    const Bytes floor = structural_floor(graph_).bytes;
    const Bytes width = std::max<Bytes>(0, reference_.peak_bytes - floor);
    switch (random_() % 8) {
      case 0: return 0;
      case 1: return std::numeric_limits<Bytes>::max();
      case 2: return floor;
      case 3: return reference_.peak_bytes;
      default:
        return floor + static_cast<Bytes>(random_() % (static_cast<std::uint64_t>(width) + 1));
    }
  }

  planner::Planned plan(const strategy::Strategy& strategy, Bytes budget) const {
    Control control;
    return planner::plan_within(graph_, strategy, budget, short_search(strategy.name, 1), control);
  }

  void ask(const strategy::Strategy& strategy, Bytes budget) const {
    const std::string what = fmt::format("{} within {}", strategy.name, budget);
    const planner::Planned planned = plan(strategy, budget);
    if (planned.plan) return check_plan(planned, budget, what);
    require(planned.outcome == strategy::Outcome::infeasible,
            what + ": neither a plan nor infeasible");
    require(!planned.message.empty(), what + ": no reason");
    if (!planned.smallest_budget) return;
    require(*planned.smallest_budget > budget, what + ": the smallest budget is no larger");
    const planner::Planned again = plan(strategy, *planned.smallest_budget);
    require(again.plan.has_value(),
            fmt::format("{}: not even the {} that it names do", what, *planned.smallest_budget));
  }

  void check_plan(const planner::Planned& planned, Bytes budget, const std::string& what) const {
    require(planned.outcome == strategy::Outcome::feasible ||
                planned.outcome == strategy::Outcome::optimal,
            what + ": a plan, but neither feasible nor optimal");
    require(planned.plan->layout && planned.plan->layout->arena_bytes <= budget,
            what + ": the arena exceeds the budget");
    require_valid(graph_, *planned.plan, what);
    require_valid(graph_, parse_plan(format_plan(*planned.plan)), what + ", written and read");
  }

  const Graph& graph_;
  std::mt19937_64 random_;
  const KeepAll reference_;
};

void check_graph(const Graph& graph, std::uint64_t seed) {
  require_valid(graph, keep_all(graph), "keep-all");
  const std::string text = format_graph(graph);
  require(format_graph(parse_graph(text)) == text, "a graph that changes when written and read");
  done_or_refused([&] { cost::priced(graph, {}); });
  if (graph.num_ops() <= kMostOps) Asker(graph, seed).ask_some();
}

// ---- Plans and profiles ------------------------------------------------------------------------

void check_plan(const Graph& graph, const Plan& plan) {
  const auto violation = verify(graph, plan);
  if (violation) {
    require(!violation->message.empty() && name(violation->rule) != "unknown",
            "a violation without a reason");
  }
  Replay replayed;
  const bool can_be_done = done_or_refused([&] { replayed = replay(graph, plan); });
  if (!violation) {
    require(can_be_done, "a valid plan that cannot be replayed");
    require(replayed.peak_bytes == plan.peak_bytes, "a valid plan with another peak");
  }
  const Plan again = parse_plan(format_plan(plan));
  require(again.actions == plan.actions && again.layout == plan.layout,
          "a plan that changes when written and read");
}

void check_profile(const Graph& graph, const cost::Profile& profile) {
  require(cost::parse_profile(cost::format_profile(profile)) == profile,
          "a profile that changes when written and read");
  done_or_refused([&] {
    const Graph with_times = cost::priced(graph, profile);
    require_valid(with_times, keep_all(with_times), "keep-all of a priced graph");
  });
}

bool read(std::string_view text) {
  bool accepted = false;
  const std::uint64_t seed = std::hash<std::string_view>()(text);
  if (const auto graph = read_or_refuse([&] { return parse_graph(text, kSource); })) {
    accepted = true;
    check_graph(*graph, seed);
  }
  if (const auto plan = read_or_refuse([&] { return parse_plan(text, kSource); })) {
    accepted = true;
    for (const Documents& document : valid_documents()) check_plan(document.graph, *plan);
  }
  if (const auto profile = read_or_refuse([&] { return cost::parse_profile(text, kSource); })) {
    accepted = true;
    for (const Documents& document : valid_documents()) check_profile(document.graph, *profile);
  }
  return accepted;
}

}  // namespace

Reading read_as_anything(std::string_view text) {
  try {
    return {read(text), ""};
  } catch (const Fault& fault) {
    return {false, fault.what()};
  } catch (const std::exception& error) {
    return {false, fmt::format("threw what it may not: {}", error.what())};
  }
}

}  // namespace lowtide::testing
