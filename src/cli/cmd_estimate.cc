#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/budget.h"
#include "base/error.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cost/roofline.h"
#include "estimate/from_graph.h"
#include "estimate/transformer.h"
#include "graph/io.h"
#include "planner/does_not_fit.h"
#include "planner/planner.h"
#include "planner/resolve.h"
#include "report/estimate_text.h"

namespace lowtide::cli {
namespace {

struct EstimateArguments {
  std::string graph;
  Edits<models::StepRecipe> edits;
  bool transformer = false;
  estimate::TransformerTraining training = {};
  std::string shard;
  std::string budget;
  Edits<planner::PlanningOptions> planning;
  bool quiet = false;
  bool json = false;
};

estimate::Estimate of_sizes(const EstimateArguments& arguments, const models::StepRecipe& recipe) {
  const models::ModelOptions& sizes = recipe.sizes;
  estimate::TransformerTraining training = arguments.training;
  training.compute = recipe.precision.compute;
  training.states = models::optimizer_states(recipe.optimizer);
  training.drops_out = sizes.dropout != 0;
  if (!arguments.shard.empty()) training.shard = estimate::parse_shard(arguments.shard);
  return estimate::from_sizes({.layers = sizes.layers,
                               .width = sizes.width,
                               .heads = sizes.heads,
                               .vocabulary = sizes.vocabulary,
                               .sequence = sizes.sequence,
                               .batch = sizes.batch == 0 ? 1 : sizes.batch},
                              training);
}

estimate::PlannedPeak planned_peak(const Graph& graph, const EstimateArguments& arguments) {
  planner::PlanningOptions planning;
  apply(arguments.planning, planning);
  const strategy::Strategy& strategy = strategy::find_strategy_or_default(planning.strategy);
  const Bytes budget = planner::resolve(parse_budget(arguments.budget), graph);
  Progress progress(arguments.quiet);
  Control control(planning.seconds, progress.messages());
  const planner::Planned planned =
      planner::plan_within(graph, strategy, budget, planning.strategy_options, control);
  if (!planned.plan) throw planner::DoesNotFit(graph, planned);
  return {.budget_bytes = budget,
          .strategy = planned.plan->strategy,
          .peak_bytes = planned.plan->peak_bytes,
          .overhead = planned.overhead()};
}

estimate::Estimate of_graph(const Graph& graph, const EstimateArguments& arguments) {
  estimate::Estimate found = estimate::from_graph(graph);
  if (!arguments.budget.empty()) found.planned = planned_peak(graph, arguments);
  return found;
}

Graph zoo_graph(const models::StepRecipe& recipe) {
  require_model(recipe);
  return cost::roofline_priced(models::training_graph(recipe));
}

/// Throws InputError unless there is one of the three that can be estimated.
void require_one_subject(const EstimateArguments& arguments, const models::StepRecipe& recipe) {
  const int subjects = (arguments.graph.empty() ? 0 : 1) + (recipe.model.empty() ? 0 : 1) +
                       (arguments.transformer ? 1 : 0);
  if (subjects == 1) return;
  throw InputError(subjects == 0 ? "estimate what? Give GRAPH.json, --model or --transformer."
                                 : "give one of GRAPH.json, --model and --transformer.");
}

void require_formulas(const EstimateArguments& arguments) {
  const estimate::TransformerTraining& training = arguments.training;
  const bool given = training.master_copy || training.fused_attention || training.checkpoints ||
                     training.ranks > 1 || !arguments.shard.empty();
  if (!given || arguments.transformer) return;
  throw InputError("--master-copy, --fused-attention, --checkpoints, --ranks and --shard are for "
                   "--transformer: leave them out, or give the sizes of a transformer.");
}

/// Throws InputError for what the formulas would leave out without a word.
void require_known_to_formulas(const EstimateArguments& arguments,
                               const models::StepRecipe& recipe) {
  if (!arguments.transformer) return;
  const models::Precision& precision = recipe.precision;
  if (recipe.micro_batches != 1 || recipe.slices != 1 || precision.gradient_type != DType::f32 ||
      precision.state_type != DType::f32) {
    throw InputError(
        "the formulas of --transformer know no --micro-batches, --slices, --gradient-type "
        "and --state-type: leave them out, or give --model.");
  }
  if (!arguments.budget.empty()) {
    throw InputError("--budget needs a graph to plan: give GRAPH.json or --model.");
  }
}

/// Throws InputError for options of a plan where none is asked for, and for options of a model
/// where there is a graph.
void require_plan(const EstimateArguments& arguments) {
  if (arguments.budget.empty() && !arguments.planning.empty()) {
    throw InputError("--strategy, -O and --time-limit are for a plan: give the --budget to plan "
                     "within, or leave them out.");
  }
  if (!arguments.graph.empty() && !arguments.edits.empty()) {
    throw InputError("a graph has its sizes, optimizer and precision: leave their options out, or "
                     "give --model in place of GRAPH.json.");
  }
}

int estimate_memory(const EstimateArguments& arguments) {
  models::StepRecipe recipe;
  apply_recipe(arguments.edits, recipe);
  require_one_subject(arguments, recipe);
  require_formulas(arguments);
  require_known_to_formulas(arguments, recipe);
  require_plan(arguments);
  const auto found = [&] {
    if (arguments.transformer) return of_sizes(arguments, recipe);
    if (!arguments.graph.empty()) return of_graph(read_graph(arguments.graph), arguments);
    return of_graph(zoo_graph(recipe), arguments);
  }();
  if (arguments.json) {
    print_json(report::estimate_json(found));
  } else {
    print(report::format_estimate(found, report::kEstimateRows, output_columns()));
  }
  return kSuccess;
}

void add_transformer_options(CLI::App& app, EstimateArguments& arguments) {
  constexpr const char* kGroup = "Transformer by its sizes";
  app.add_flag("--transformer", arguments.transformer,
               "A decoder like GPT-3, by formulas: --layers, --width, --heads, --vocabulary, "
               "--sequence")
      ->group(kGroup);
  app.add_flag("--master-copy", arguments.training.master_copy,
               "With bf16 or fp16: parameters and gradients in 16 bits, and a copy in 32 bits with "
               "the optimizer's state")
      ->group(kGroup);
  app.add_flag("--fused-attention", arguments.training.fused_attention,
               "Attention without a matrix of scores in memory")
      ->group(kGroup);
  app.add_flag("--checkpoints", arguments.training.checkpoints,
               "Keep the input of each block, and compute the rest again")
      ->group(kGroup);
  app.add_option("--ranks", arguments.training.ranks, "Data-parallel ranks [1]")
      ->check(in_whole_range(1, kLargestWhole))
      ->type_name("N")
      ->group(kGroup);
  app.add_option("--shard", arguments.shard,
                 "What ranks divide: optimizer, gradients too, or parameters too")
      ->type_name("STATE")
      ->group(kGroup);
}

}  // namespace

Action define_estimate(CLI::App& app) {
  auto arguments = std::make_shared<EstimateArguments>();
  app.add_option("graph", arguments->graph, "Graph of a step")->type_name("GRAPH.json");
  add_recipe_options(app, arguments->edits);
  add_transformer_options(app, *arguments);
  app.add_option("--budget", arguments->budget,
                 "Also plan within these bytes (1.5GiB), or this share of the keep-all peak (60%)")
      ->type_name("BUDGET")
      ->group("Planning");
  add_planning_options(app, arguments->planning);
  add_quiet_flag(app, arguments->quiet);
  add_json_flag(app, arguments->json);
  add_help(app,
           "The memory of a training step before it runs, when every value is kept: parameters,\n"
           "gradients, optimizer state, activations by layer and by kind of op, and the peak with\n"
           "what it holds. A graph that `lowtide profile` measured has its workspaces too.",
           "  lowtide estimate --model gpt --batch 8 --optimizer adamw --precision bf16\n"
           "  lowtide estimate step.json --budget 60%\n"
           "  lowtide estimate --transformer --layers 96 --width 12288 --heads 96 \\\n"
           "      --vocabulary 50257 --sequence 2048 --optimizer adam --precision bf16 \\\n"
           "      --master-copy --ranks 64 --shard parameters\n");
  return [arguments] { return estimate_memory(*arguments); };
}

}  // namespace lowtide::cli
