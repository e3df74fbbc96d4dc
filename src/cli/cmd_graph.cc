#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cost/roofline.h"
#include "graph/io.h"
#include "plan/replay.h"

namespace lowtide::cli {
namespace {

struct GraphArguments {
  Edits<models::StepRecipe> edits;
  std::string output;
  std::string like;
  bool json = false;
};

int write_training_graph(const GraphArguments& arguments) {
  models::StepRecipe recipe;
  apply_recipe(arguments.edits, recipe);
  require_model(recipe);
  const cost::DeviceRates& rates =
      arguments.like.empty() ? cost::default_rates() : cost::find_device(arguments.like);
  require_can_write(arguments.output);
  const Graph graph = cost::roofline_priced(models::training_graph(recipe), rates);
  write_graph(graph, arguments.output);
  const KeepAll reference = keep_all_reference(graph);
  if (arguments.json) {
    print_json({{"graph", graph.name()},
                {"file", arguments.output},
                {"ops", graph.num_ops()},
                {"tensors", graph.num_tensors()},
                {"resident_bytes", graph.resident_bytes()},
                {"keep_all_peak_bytes", reference.peak_bytes},
                {"estimated", true},
                {"costs", cost::cost_origin(graph)}});
  } else if (arguments.output != "/dev/stdout") {
    print(fmt::format(
        "{}: {} ops, {} tensors, {} held throughout, keep-all peak {} without workspaces.\n"
        "Times are {}: `lowtide profile {} -o {}` measures those of this machine and the "
        "workspaces.\n",
        graph.name(), graph.num_ops(), graph.num_tensors(), format_bytes(graph.resident_bytes()),
        format_bytes(reference.peak_bytes), cost::cost_origin(graph), arguments.output,
        arguments.output));
  }
  return kSuccess;
}

}  // namespace

Action define_graph(CLI::App& app) {
  auto arguments = std::make_shared<GraphArguments>();
  add_recipe_options(app, arguments->edits);
  app.add_option("-o,--output", arguments->output, "File to write")->required()->type_name("FILE");
  add_like_option(app, arguments->like);
  add_json_flag(app, arguments->json);
  add_help(app,
           "Writes the whole training step (forward, loss, gradients, update) as a lowtide-graph\n"
           "document, with times estimated by a roofline model and marked as estimates.",
           "  lowtide graph --model unet --batch 8 -o unet.json\n"
           "  lowtide graph --model resnet50 --like h100 -o resnet50.json\n"
           "  lowtide graph --model gpt --layers 12 --width 512 --optimizer adamw -o gpt.json\n");
  return [arguments] { return write_training_graph(*arguments); };
}

}  // namespace lowtide::cli
