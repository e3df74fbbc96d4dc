#include "largest/extra_time.h"

#include <fmt/format.h>

#include <limits>
#include <variant>

#include "base/budget.h"
#include "base/error.h"
#include "plan/replay.h"

namespace lowtide::largest {
namespace {

constexpr std::string_view kAny = "any", kForward = "forward";
/// Costs are sums in another order.
constexpr double kRounding = 1 + 1e-9;

double forward_cost(const Graph& graph) {
  double cost = 0;
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::forward) cost += op.cost;
  }
  return cost;
}

/// "30%"; nothing for other texts.
std::optional<double> parse_share(std::string_view text) {
  try {
    const Budget budget = parse_budget(text);
    if (const auto* share = std::get_if<Budget::Share>(&budget.value)) return share->percent / 100;
  } catch (const InputError&) {  // its message is about budgets
  }
  return std::nullopt;
}

}  // namespace

ExtraTime parse_extra_time(std::string_view text) {
  if (text == kAny) return {};
  if (text == kForward) return {.kind = ExtraTime::Kind::forward};
  if (text == "0%") return {.kind = ExtraTime::Kind::share};
  if (const std::optional<double> share = parse_share(text)) {
    return {.kind = ExtraTime::Kind::share, .share = *share};
  }
  throw InputError(
      fmt::format("extra time is a share of a step's own such as 30%, \"{}\" for one forward pass, "
                  "or \"{}\", not \"{}\".",
                  kForward, kAny, text));
}

std::string format_extra_time(const ExtraTime& extra) {
  if (extra.kind == ExtraTime::Kind::any) return std::string(kAny);
  if (extra.kind == ExtraTime::Kind::forward) return std::string(kForward);
  return fmt::format("{:g}%", 100 * extra.share);
}

double cost_limit(const Graph& graph, const ExtraTime& extra) {
  const double own = keep_all_reference(graph).cost;
  if (extra.kind == ExtraTime::Kind::share) return kRounding * (1 + extra.share) * own;
  if (extra.kind == ExtraTime::Kind::forward) return kRounding * (own + forward_cost(graph));
  return std::numeric_limits<double>::infinity();
}

}  // namespace lowtide::largest
