#include "fuzz/plan_faults.h"

#include <charconv>

#include "base/control.h"
#include "fuzz/asked.h"
#include "fuzz/varied_graph.h"
#include "graph/io.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "support/check_plan.h"

namespace lowtide::testing {
namespace {

struct Case {
  std::uint64_t number = 0;
  Graph graph;
};

Case parse_case(std::string_view text) {
  const std::size_t end = text.find('\n');
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + std::min(end, text.size()), number);
  return {number, parse_graph(end == text.npos ? "" : text.substr(end + 1))};
}

void check_in_python(const Graph& graph, PlanAnswers& answers) {
  std::vector<PlanCase> cases;
  for (const Plan& plan : answers.plans()) cases.push_back({&graph, &plan});
  const auto valid = are_valid_plans(cases);
  answers.check(static_cast<bool>(valid), "check_plan.py: {}", valid.message());
}

void check_case(const Case& given, PlanAnswers& answers) {
  const Graph& graph = given.graph;
  Chance chance(given.number);
  answers.check(format_graph(parse_graph(format_graph(graph))) == format_graph(graph),
                "a graph that changes when written and read");
  ask_strategies(graph, chance, answers);
  ask_with_slower_memory(graph, chance, answers);
  answers.compare();
  ask_packings(graph, chance, answers);
  constexpr std::uint64_t kRarity = 8;
  if (given.number % kRarity == 0) check_in_python(graph, answers);
}

}  // namespace

std::string plan_case(std::uint64_t seed) {
  return fmt::format("{}\n{}", seed, format_graph(varied_graph(seed)));
}

PlanReading read_as_plan_case(std::string_view text) {
  PlanReading reading;
  try {
    const Case given = parse_case(text);
    PlanAnswers answers(given.graph);
    check_case(given, answers);
    reading.tally = answers.tally();
  } catch (const Fault& fault) {
    reading.fault = fault.what();
  } catch (const std::exception& error) {
    reading.fault = fmt::format("threw what it may not: {}", error.what());
  }
  if (Control::stop_requested()) reading.fault.clear();  // what was stopped is no answer
  return reading;
}

}  // namespace lowtide::testing
