#include "bounds/raised.h"

#include <optional>
#include <utility>

#include "bounds/certificate.h"
#include "bounds/price_bound.h"
#include "bounds/split.h"

namespace lowtide::bounds {
namespace {

constexpr double kWork = 3e8;  // for each size of cluster: about half a second

std::shared_ptr<const certify::Certificate> by_cases(const Graph& graph,
                                                     const remat::StageGraph& stages,
                                                     const certify::Certificate& certificate,
                                                     const Control& control) {
  const remat::Prices prices(stage_prices(stages, op_prices(certificate)));
  std::optional<SplitBound> cases = split_bound(graph, stages, certificate.budget_bytes, prices,
                                                certificate.lower_bound, kWork, control);
  if (!cases) return nullptr;
  auto higher = std::make_shared<certify::Certificate>(certificate);
  higher->lower_bound = cases->value;
  higher->split = std::move(cases->proof);
  return higher;
}

std::shared_ptr<const certify::Certificate> undivided(const Graph& graph,
                                                      const remat::StageGraph& stages,
                                                      const certify::Certificate& certificate,
                                                      const Control& control) {
  PriceBound bound(stages, certificate.budget_bytes);
  bound.start_from(stage_prices(stages, op_prices(certificate)));
  raise_in_rounds(bound, kWork, control, control);
  if (bound.value() <= certificate.lower_bound) return nullptr;
  return shared_certificate(graph, stages, bound, certificate.budget_bytes);
}

}  // namespace

/// Tries cases first: where a value allows them, they gain far more.
std::shared_ptr<const certify::Certificate> raised(const Graph& graph,
                                                   const certify::Certificate& certificate,
                                                   const Control& control) {
  const remat::StageGraph stages(graph);
  auto higher = by_cases(graph, stages, certificate, control);
  return higher ? higher : undivided(graph, stages, certificate, control);
}

}  // namespace lowtide::bounds
