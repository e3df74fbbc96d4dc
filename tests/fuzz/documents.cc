#include "fuzz/documents.h"

#include <utility>

#include "cost/profile.h"
#include "graph/io.h"
#include "graph/random_graph.h"
#include "layout/layout.h"
#include "models/model.h"
#include "plan/in_place.h"
#include "plan/io.h"
#include "plan/lower.h"
#include "support/random_graph.h"

namespace lowtide::testing {
namespace {

/// With writes in place and addresses.
Plan completed(const Graph& graph, const Plan& bare) {
  Plan plan = with_in_place(graph, bare);
  plan.strategy = "random";
  plan.layout = layout::assign_addresses(graph, plan, {.alignment = 1});
  plan.budget_bytes = plan.layout->arena_bytes;
  plan.lower_bound = 0;
  return plan;
}

cost::Profile some_profile(const Graph& graph) {
  cost::Profile profile;
  profile.device = "Abacus, 2 threads";
  for (OpId id = 0; id < graph.num_ops(); id += 2) {
    cost::OpProfile& op = profile.ops[cost::profile_key(graph, id)];
    op.microseconds = 0.5 + id;
    op.workspace_bytes = 64 * id;
    if (id > 0) op.allocations.push_back({32, -1, 16});
    if (!graph.op(id).outputs.empty()) op.allocations.push_back({8, 0, 0});
  }
  return profile;
}

Documents documents_of(Graph graph, const Plan& bare) {
  Plan plan = completed(graph, bare);
  cost::Profile profile = some_profile(graph);
  return {std::move(graph), std::move(plan), std::move(profile)};
}

Documents with_reruns(Graph graph, std::uint64_t seed) {
  const Plan plan = lower(graph, random_executions(graph, seed));
  return documents_of(std::move(graph), plan);
}

/// For graphs with ops that make views as well as values, and so may run only once.
Documents without_reruns(Graph graph) {
  const Plan plan = keep_all(graph);
  return documents_of(std::move(graph), plan);
}

Graph small_training_step() {
  const models::Model& model = models::find_model("mlp");
  models::ModelOptions options;
  options.batch = 4;
  return models::training_graph(model, models::with_defaults(model, options), {});
}

}  // namespace

const std::vector<Documents>& valid_documents() {
  static const std::vector<Documents> documents = [] {
    std::vector<Documents> made;
    made.push_back(with_reruns(chain_graph(5), 1));
    made.push_back(with_reruns(random_graph(2, {.ops = 12}), 2));
    made.push_back(with_reruns(random_graph(3, {.ops = 30}), 3));
    made.push_back(without_reruns(small_training_step()));
    for (std::uint64_t seed : {5, 6}) {
      made.push_back(without_reruns(Graph(RandomGraph(seed).draw())));
    }
    return made;
  }();
  return documents;
}

const std::vector<std::string>& valid_texts() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> made;
    for (const Documents& document : valid_documents()) {
      made.push_back(format_graph(document.graph));
      made.push_back(format_plan(document.plan));
      made.push_back(cost::format_profile(document.profile));
    }
    return made;
  }();
  return texts;
}

}  // namespace lowtide::testing
