// y = exp(a * b + 3) and its gradient, from the formula to the bytes: graph, liveness, colours of
// shared memory, execution. docs/tutorial/worked-example.md walks through what this prints.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>

#include "autodiff/gradient.h"
#include "builder/functions.h"
#include "cost/profile.h"
#include "layout/layout.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/verify.h"
#include "profile/profiler.h"
#include "runtime/executor.h"

namespace {

using namespace lowtide;

constexpr std::int64_t kElements = 16;  // 64 bytes: one slot of the arena

void print(const std::string& line) { std::fputs((line + '\n').c_str(), stdout); }

const std::string& name(const Graph& graph, TensorId id) { return graph.tensor(id).name; }

void print_graph(const Graph& graph) {
  print("graph");
  for (const Op& op : graph.ops()) {
    std::string inputs;
    for (TensorId input : op.inputs) inputs += ' ' + name(graph, input);
    print(fmt::format("  {:8} {:9} = {:17}{}", name(op.phase), name(graph, op.outputs.front()),
                      op.type, inputs));
  }
}

/// When each value begins and ends, as indices of actions.
std::map<TensorId, std::pair<int, int>> lifetimes(const Graph& graph, const Plan& plan) {
  std::map<TensorId, std::pair<int, int>> result;
  const int end = static_cast<int>(plan.actions.size());
  for (int i = 0; i < end; ++i) {
    const Action& action = plan.actions[static_cast<std::size_t>(i)];
    if (action.verb == Verb::free) result[action.index].second = i;
    if (action.verb == Verb::run) result[graph.op(action.index).outputs.front()] = {i, end};
  }
  return result;
}

std::string describe(const Graph& graph, const Action& action) {
  if (action.verb == Verb::free) return "free " + name(graph, action.index);
  return "run " + graph.op(action.index).name;
}

void print_liveness(const Graph& graph, const Plan& plan) {
  const auto lives = lifetimes(graph, plan);
  std::string header = fmt::format("  {:12}", "");
  for (const auto& [value, life] : lives) header += fmt::format(" {:9}", name(graph, value));
  print("\nliveness: each op once, each value freed after its last use");
  print(header);
  for (int i = 0; i < static_cast<int>(plan.actions.size()); ++i) {
    std::string row =
        fmt::format("  {:12}", describe(graph, plan.actions[static_cast<std::size_t>(i)]));
    for (const auto& [value, life] : lives) {
      row += fmt::format(" {:9}", life.first <= i && i < life.second ? "|" : "");
    }
    print(row.substr(0, row.find_last_not_of(' ') + 1));
  }
  print(fmt::format("  at most {} bytes of values at one time",
                    plan.peak_bytes - graph.resident_bytes()));
}

/// The slot in which each value lies: one written in place has that of the input it replaces.
std::map<TensorId, Bytes> slots(const Graph& graph, const Plan& plan) {
  std::map<TensorId, Bytes> result;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (action.verb != Verb::run) continue;
    const Op& op = graph.op(action.index);
    for (const Placement& placed : plan.layout->placements[i]) {
      if (!placed.workspace) result[placed.index] = placed.offset / packing::kArenaAlignment;
    }
    for (int output : action.in_place) {
      for (const InPlace& pair : op.inplace) {
        if (pair.output == output) {
          result[op.outputs.at(static_cast<std::size_t>(output))] =
              result.at(op.inputs.at(static_cast<std::size_t>(pair.input)));
        }
      }
    }
  }
  return result;
}

void print_colours(const Graph& graph, const Plan& plan) {
  print("\ncolours: values of one colour share 64 bytes, one after the other");
  std::map<Bytes, std::string> colours;
  for (const auto& [value, slot] : slots(graph, plan)) colours[slot] += ' ' + name(graph, value);
  for (const auto& [slot, values] : colours) {
    print(fmt::format("  {} at {:3}:{}", static_cast<char>('A' + slot),
                      slot * packing::kArenaAlignment, values));
  }
  print(fmt::format("  arena of {} bytes: {} of a, b and seed, {} of values",
                    plan.layout->arena_bytes, graph.resident_bytes(),
                    plan.layout->arena_bytes - graph.resident_bytes()));
}

/// A plan that keeps everything, writes in place where it may, and has addresses.
Plan make_plan(const Graph& graph) {
  Plan plan = with_in_place(graph, keep_all(graph));
  plan.layout = layout::assign_addresses(graph, plan);
  if (const auto violation = verify(graph, plan)) throw std::logic_error(violation->message);
  return plan;
}

}  // namespace

int main() {
  Builder builder("exp(a*b+3)");
  const Value a = builder.input("a", {kElements});
  const Value b = builder.input("b", {kElements});
  const Value seed = builder.input("seed", {kElements});
  const Value y = exp(a * b + 3);
  const auto g = autodiff::gradient(std::vector{y}, std::vector{a, b}, std::vector{seed});
  builder.set_name(y, "y");
  builder.set_name(g[0], "a.grad");
  builder.set_name(g[1], "b.grad");
  const Graph described = builder.build({y, g[0], g[1]});
  print_graph(described);
  print_liveness(described, keep_all(described));

  cost::Profile profile;
  profile::profile_ops(described, profile, Control());
  const Graph graph = cost::priced(described, profile);
  const Plan plan = make_plan(graph);
  print_colours(graph, plan);

  runtime::Executor executor(graph, plan);
  executor.resident(a.id()).fill_(0.5);
  executor.resident(b.id()).fill_(-2);
  executor.resident(seed.id()).fill_(1);
  const runtime::StepReport report = executor.step();
  const auto first = [&](Value v) { return executor.output(v.id())[0].item<float>(); };
  print("\nexecution, with a = 0.5 and b = -2");
  print(fmt::format("  y = {:.4f}, a.grad = {:.4f}, b.grad = {:.4f}", first(y), first(g[0]),
                    first(g[1])));
  print(fmt::format("  measured peak {} bytes, outside the arena {} bytes",
                    report.measured_peak_bytes, report.outside_bytes));
  return 0;
}
