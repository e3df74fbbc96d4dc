#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "graph/io.h"
#include "parallel/cluster/cluster_format.h"
#include "parallel/placement_search.h"
#include "parallel/units/graph_units.h"
#include "parallel/units/transformer_units.h"
#include "report/placement_text.h"

namespace lowtide::cli {
namespace {

constexpr int kMostWidth = 1'000'000;

struct ParallelArguments {
  std::string graph;
  std::string cluster;
  Edits<models::StepRecipe> edits;
  bool transformer = false;
  bool fused_attention = false, wide_gradients = false, whole_sequence = false;
  bool as_given = false;
  parallel::SearchLimits limits;
  std::string schedule, zero;
  bool quiet = false;
  bool json = false;
};

parallel::Schedule parse_schedule(std::string_view text) {
  for (const parallel::Schedule schedule :
       {parallel::Schedule::gpipe, parallel::Schedule::one_f_one_b,
        parallel::Schedule::interleaved}) {
    if (parallel::name(schedule) == text) return schedule;
  }
  throw InputError(fmt::format("\"{}\" is no schedule: write gpipe, 1f1b or interleaved.", text));
}

/// "3", or "3-node" where the ranks of a node divide the state.
parallel::Sharding parse_zero(std::string_view text) {
  constexpr std::string_view kNode = "-node";
  const bool within_node = text.ends_with(kNode);
  const std::string_view stage = within_node ? text.substr(0, text.size() - kNode.size()) : text;
  const bool known = stage.size() == 1 && stage[0] >= '0' && stage[0] <= '3';
  if (!known || (within_node && stage[0] == '0')) {
    throw InputError(fmt::format(
        "\"{}\" is no stage of ZeRO: write 0, 1, 2, 3, 1-node, 2-node or 3-node.", text));
  }
  return {.stage = stage[0] - '0', .within_node = within_node};
}

parallel::LayeredModel transformer_of(const ParallelArguments& arguments,
                                      const models::StepRecipe& recipe) {
  const models::ModelOptions& sizes = recipe.sizes;
  return parallel::transformer_units(
      {.sizes = {.layers = sizes.layers,
                 .width = sizes.width,
                 .heads = sizes.heads,
                 .vocabulary = sizes.vocabulary,
                 .sequence = sizes.sequence},
       .training = {.compute = recipe.precision.compute,
                    .master_copy = recipe.precision.compute != DType::f32,
                    .states = models::optimizer_states(recipe.optimizer),
                    .drops_out = sizes.dropout != 0,
                    .fused_attention = arguments.fused_attention},
       .wide_gradients = arguments.wide_gradients});
}

parallel::LayeredModel zoo_model_of(const models::StepRecipe& recipe) {
  const models::Model& model = models::find_model(recipe.model);
  const auto step = [&model, recipe](std::int64_t samples) {
    models::ModelOptions sizes = recipe.sizes;
    sizes.batch = samples;
    return models::training_graph(model, sizes, recipe.optimizer, recipe.precision);
  };
  return parallel::graph_units(recipe.model, step, true, false);
}

parallel::LayeredModel graph_model_of(const ParallelArguments& arguments) {
  const auto graph = std::make_shared<const Graph>(read_graph(arguments.graph));
  const auto step = [graph](std::int64_t) { return *graph; };
  return parallel::graph_units(graph->name(), step, false, arguments.as_given);
}

/// Throws InputError unless there is one model, with options that are for it.
void require_one_model(const ParallelArguments& arguments, const models::StepRecipe& recipe) {
  const int models = (arguments.graph.empty() ? 0 : 1) + (recipe.model.empty() ? 0 : 1) +
                     (arguments.transformer ? 1 : 0);
  if (models != 1) {
    throw InputError(models == 0 ? "place what? Give GRAPH.json, --model or --transformer."
                                 : "give one of GRAPH.json, --model and --transformer.");
  }
  if (recipe.sizes.batch != 0 || recipe.micro_batches != 1) {
    throw InputError("--batch and --micro-batches are chosen here: leave them out, and give "
                     "--global-batch; --micro-batch limits the choice.");
  }
  if (recipe.slices != 1) {
    throw InputError("a pipeline divides a model that runs in one slice: leave --slices out.");
  }
  if ((arguments.fused_attention || arguments.wide_gradients) && !arguments.transformer) {
    throw InputError("--fused-attention and --wide-gradients are for --transformer.");
  }
  const models::Precision& precision = recipe.precision;
  const bool narrow = precision.gradient_type != DType::f32 || precision.state_type != DType::f32;
  if (arguments.transformer && narrow) {
    throw InputError(
        "--gradient-type and --state-type are for --model: --transformer has gradients "
        "of its --precision, or of 32 bits with --wide-gradients.");
  }
  if (arguments.as_given && arguments.graph.empty()) {
    throw InputError("--as-given is for the costs of GRAPH.json.");
  }
}

parallel::LayeredModel model_of(const ParallelArguments& arguments,
                                const models::StepRecipe& recipe) {
  if (arguments.transformer) return transformer_of(arguments, recipe);
  if (!arguments.graph.empty()) return graph_model_of(arguments);
  return zoo_model_of(recipe);
}

int place(const ParallelArguments& arguments) {
  models::StepRecipe recipe;
  apply_recipe(arguments.edits, recipe);
  require_one_model(arguments, recipe);
  const parallel::Cluster cluster = parallel::read_cluster(arguments.cluster);
  parallel::SearchLimits limits = arguments.limits;
  limits.space.sequence_parallel = !arguments.whole_sequence;
  limits.space.sequence = std::max<std::int64_t>(1, recipe.sizes.sequence);
  if (!arguments.schedule.empty()) limits.space.schedule = parse_schedule(arguments.schedule);
  if (!arguments.zero.empty()) limits.space.sharding = parse_zero(arguments.zero);
  const parallel::LayeredModel model = model_of(arguments, recipe);
  Progress progress(arguments.quiet);
  const Control control(0, progress.messages());
  const parallel::FoundPlacements found =
      parallel::find_placements(model, cluster, limits, control);
  if (arguments.json) {
    print_json(report::placements_json(model, cluster, found));
  } else {
    print(report::format_placements(model, cluster, found, output_columns()));
  }
  return found.complete ? kSuccess : kStopped;
}

void add_width(CLI::App& app, const std::string& option, std::optional<int>& width,
               const std::string& help) {
  app.add_option(option, width, help)
      ->check(in_whole_range(1, kMostWidth))
      ->type_name("N")
      ->group("Placement");
}

void add_placement_options(CLI::App& app, ParallelArguments& arguments) {
  parallel::PlacementLimits& space = arguments.limits.space;
  constexpr const char* kGroup = "Placement";
  app.add_option("--global-batch", space.global_batch, "Samples of a step, on all ranks together")
      ->required()
      ->check(in_whole_range(1, kLargestWhole))
      ->type_name("N")
      ->group(kGroup);
  add_width(app, "--data", space.data, "Only this many data-parallel ranks");
  add_width(app, "--tensor", space.tensor, "Only this many tensor-parallel ranks");
  add_width(app, "--pipeline", space.pipeline, "Only this many stages");
  app.add_option("--micro-batch", space.micro_batch, "Only micro-batches of this many samples")
      ->check(in_whole_range(1, kLargestWhole))
      ->type_name("N")
      ->group(kGroup);
  app.add_option("--schedule", arguments.schedule,
                 "Only gpipe, 1f1b or interleaved [1f1b and interleaved]")
      ->type_name("NAME")
      ->group(kGroup);
  app.add_option("--zero", arguments.zero,
                 "Only this stage of ZeRO: 0, 1, 2, 3; within a node: 1-node, 2-node, 3-node")
      ->type_name("STAGE")
      ->group(kGroup);
  app.add_flag("--no-sequence-parallel", arguments.whole_sequence,
               "Tensor-parallel ranks do not divide tokens")
      ->group(kGroup);
}

}  // namespace

Action define_parallel(CLI::App& app) {
  auto arguments = std::make_shared<ParallelArguments>();
  app.add_option("graph", arguments->graph, "Graph of a step, whose batch counts as one sample")
      ->type_name("GRAPH.json");
  app.add_option("--cluster", arguments->cluster, "The cluster's devices and links")
      ->required()
      ->type_name("FILE");
  add_recipe_options(app, arguments->edits);
  add_placement_options(app, *arguments);
  app.add_flag("--transformer", arguments->transformer,
               "A decoder like GPT-3 by its sizes: --layers, --width, --heads, --vocabulary, "
               "--sequence; the only one with tensor parallelism")
      ->group("Model");
  app.add_flag("--fused-attention", arguments->fused_attention,
               "Of --transformer: attention without a matrix of scores in memory")
      ->group("Model");
  app.add_flag("--wide-gradients", arguments->wide_gradients,
               "Of --transformer, with bf16 or fp16: gradients add up in 32 bits")
      ->group("Model");
  app.add_flag("--as-given", arguments->as_given,
               "Costs of GRAPH.json as they are, not by the rates of the cluster's devices")
      ->group("Model");
  add_quiet_flag(app, arguments->quiet);
  add_json_flag(app, arguments->json);
  add_help(app,
           "Where a model runs on a cluster, and what each rank keeps and runs again: the widths\n"
           "of data, tensor and pipeline parallelism, the schedule, micro-batches, sharded state,\n"
           "and plans for each stage within the memory of its devices. Nothing is run.",
           "  lowtide parallel --transformer --layers 96 --width 12288 --heads 96 \\\n"
           "      --vocabulary 50257 --sequence 2048 --optimizer adam --precision bf16 \\\n"
           "      --cluster cluster.json --global-batch 1536\n"
           "  lowtide parallel --model resnet50 --cluster cluster.json --global-batch 1024\n");
  return [arguments] { return place(*arguments); };
}

}  // namespace lowtide::cli
