#pragma once

#include <string>
#include <vector>

#include "cost/profile.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace lowtide::testing {

/// A valid graph with a plan and a profile of it: mutations start from these, and mutated plans and
/// profiles are read for this graph.
struct Documents {
  Graph graph;
  Plan plan;
  cost::Profile profile;
};

/// Training steps and random graphs that use every key of the formats; always the same.
const std::vector<Documents>& valid_documents();

/// The texts of all their files.
const std::vector<std::string>& valid_texts();

}  // namespace lowtide::testing
