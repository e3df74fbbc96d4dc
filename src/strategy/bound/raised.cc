#include "strategy/bound/raised.h"

#include "strategy/bound/certificate.h"
#include "strategy/bound/price_bound.h"

namespace lowtide {

std::shared_ptr<const Certificate> raised(const Graph& graph, const Certificate& certificate,
                                          const Control& control) {
  constexpr double kWork = 3e8;  // for each size of cluster: about half a second
  const StageGraph stages(graph);
  PriceBound bound(stages, certificate.budget_bytes);
  bound.start_from(stage_prices(stages, op_prices(certificate)));
  raise_in_rounds(bound, kWork, control, control);
  if (bound.value() <= certificate.lower_bound) return nullptr;
  return shared_certificate(graph, stages, bound, certificate.budget_bytes);
}

}  // namespace lowtide
