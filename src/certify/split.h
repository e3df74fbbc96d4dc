#pragma once

#include "certify/certificate.h"
#include "certify/stages.h"

namespace lowtide::certify {

/// Throws Refused (bad_split) unless the cases cover all plans, each case once: one case in which
/// the value is held throughout, and one for each op at whose first run it may be absent for the
/// last time. Such an op comes after the value's producer and before its last reader, does not read
/// it, and the value may be made again after it.
void check_cases(const Graph& graph, const Stages& stages, const Certificate::Split& split);

/// The stages of the plans of one case (docs/explanation/certificates.md). Holding the value or
/// making it again is no longer a choice; where it is known to be live, its bytes count as needed.
/// After `absent` one more stage follows, in which its op runs again: of_op has it at
/// Graph::num_ops() + 1, and `cost` includes it.
Stages stages_of_case(const Graph& graph, const Stages& stages, TensorId value, OpId absent);

}  // namespace lowtide::certify
