#pragma once

#include "certify/certificate.h"
#include "certify/stages.h"

namespace lowtide::certify {

/// Throws Refused (bad_split) unless every plan belongs to one of the cases, each given once: one
/// in which the value is held throughout, and one for each op at whose first run it may be absent
/// for the last time: one behind the op that makes the value and before the last that reads it,
/// which does not read it and behind which the value may be made again.
void check_cases(const Graph& graph, const Stages& stages, const Certificate::Split& split);

/// The stages of the plans of one case (docs/explanation/certificates.md). The value is no longer
/// chosen to be held or made again; where it is known to be there its bytes count as needed. Where
/// it is absent last, one more stage follows, in which its op runs again: of_op has it at
/// Graph::num_ops() + 1, and `cost` counts it.
Stages stages_of_case(const Graph& graph, const Stages& stages, TensorId value, OpId absent);

}  // namespace lowtide::certify
