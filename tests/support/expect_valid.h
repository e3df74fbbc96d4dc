#pragma once

#include <gtest/gtest.h>

#include "layout/layout.h"
#include "plan/verify.h"

namespace lowtide::testing {

/// With addresses.
inline void expect_valid(const Graph& graph, Plan plan) {
  plan.layout = layout::assign_addresses(graph, plan);
  const auto violation = verify(graph, plan);
  EXPECT_FALSE(violation) << violation->action << ": " << violation->message;
}

}  // namespace lowtide::testing
