#include "planner/more_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "certify/check.h"
#include "certify/stages.h"

namespace lowtide::planner {
namespace {

bool is_any_order(const Planned& planned) { return planned.plan->model == "any-order"; }

/// Whether the certificate's bound is for plans such as this one, which may cost less than all in
/// the graph's order.
bool is_about(const certify::Certificate& certificate, const Planned& planned) {
  return certificate.chain || !is_any_order(planned);
}

/// What the certificate proves where there are so many more bytes. Undivided, it falls by what they
/// cost; of its cases, those that had no plan may have one then, so that all are worked out anew.
double bound_with(const Graph& graph, const certify::Certificate& certificate, Bytes extra_bytes) {
  if (certificate.split) {
    certify::Certificate larger = certificate;
    larger.budget_bytes += extra_bytes;
    return std::get<double>(certify::proved_bound(graph, larger));
  }
  double price = 0;
  for (const certify::Certificate::Price& stage : certificate.proof.prices) price += stage.price;
  return certificate.lower_bound - price * static_cast<double>(extra_bytes);
}

}  // namespace

Bytes worth_asking_for(Bytes budget) {
  constexpr Bytes kGiB = Bytes{1} << 30;
  return std::min(kGiB, budget / 10);
}

MoreBudget bound_with_more(const Graph& graph, const Planned& planned, Bytes extra_bytes) {
  MoreBudget more{.extra_bytes = extra_bytes, .saves_at_most = {}, .saves = {}};
  if (!planned.certificate || !planned.plan->lower_bound) return more;
  const double bound = bound_with(graph, *planned.certificate, extra_bytes);
  const double required = certify::stages_of(graph).cost;
  const bool counts = is_about(*planned.certificate, planned);
  const double least = counts ? std::max(bound, required) : required;
  more.saves_at_most = std::max(0.0, planned.plan->cost - least);
  return more;
}

MoreBudget plan_with_more(const Graph& graph, const strategy::Strategy& strategy,
                          const Planned& planned, Bytes extra_bytes,
                          const strategy::GivenOptions& options, Control& control) {
  MoreBudget more = bound_with_more(graph, planned, extra_bytes);
  const Planned larger =
      plan_within(graph, strategy, planned.budget_bytes + extra_bytes, options, control);
  if (larger.plan) more.saves = std::max(0.0, planned.plan->cost - larger.plan->cost);
  return more;
}

std::string format_more(const MoreBudget& more, const Planned& planned) {
  const auto share = [&](double saved) {
    return 100 * saved / (planned.keep_all_cost > 0 ? planned.keep_all_cost : 1);
  };
  std::string text = fmt::format("With {} more", format_bytes(more.extra_bytes));
  if (more.saves) {
    text +=
        fmt::format(", a plan was found that saves {:.2f}% of keep-all's cost", share(*more.saves));
  }
  if (more.saves_at_most) {
    text += fmt::format("{}no plan saves more than {:.2f}%{}{}", more.saves ? "; " : ", ",
                        share(*more.saves_at_most), more.saves ? "" : " of keep-all's cost",
                        is_any_order(planned) ? "" : " in the graph's order");
  }
  return text + ".\n";
}

}  // namespace lowtide::planner
