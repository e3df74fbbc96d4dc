#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "graph/io.h"
#include "plan/replay.h"
#include "train/profile_cache.h"

namespace lowtide::cli {
namespace {

struct ProfileArguments {
  std::string graph;
  std::string output;
  std::string profile;
  int threads = 0;
  bool again = false;
  bool quiet = false;
  bool json = false;
};

void require_executable(const Graph& graph, const std::string& file) {
  if (graph.executable()) return;
  throw InputError(
      fmt::format("{} cannot be measured: its ops carry no arguments, so they can be planned "
                  "but not run. `lowtide graph` writes graphs that can.",
                  file));
}

int profile(const ProfileArguments& arguments) {
  if (arguments.threads > 0) at::set_num_threads(arguments.threads);
  require_other_files({arguments.profile}, {arguments.output});
  require_can_write(arguments.output);
  const Graph graph = read_graph(arguments.graph);
  require_executable(graph, arguments.graph);
  Progress progress(arguments.quiet);
  const Control control(0, progress.messages());
  const train::Profiled profiled =
      train::profile_here(graph, arguments.profile, control,
                          arguments.again ? profile::Measure::again : profile::Measure::lacking);
  write_graph(profiled.graph, arguments.output);
  const KeepAll reference = keep_all_reference(profiled.graph);
  if (arguments.json) {
    print_json({{"graph", graph.name()},
                {"file", arguments.output},
                {"profile", profiled.file.string()},
                {"device", profiled.graph.device()},
                {"ops", graph.num_ops()},
                {"measured", profiled.measured},
                {"step_seconds", reference.cost * 1e-6},
                {"keep_all_peak_bytes", reference.peak_bytes}});
  } else {
    print(fmt::format("{}: {} distinct ops measured now, the others taken from {}.\n"
                      "A step takes {} on {}; keep-all peak {}, workspaces included.\n",
                      graph.name(), profiled.measured, profiled.file.string(),
                      duration(reference.cost * 1e-6), profiled.graph.device(),
                      format_bytes(reference.peak_bytes)));
  }
  return kSuccess;
}

}  // namespace

Action define_profile(CLI::App& app) {
  auto arguments = std::make_shared<ProfileArguments>();
  app.add_option("graph", arguments->graph, "Graph to measure")
      ->required()
      ->type_name("GRAPH.json");
  app.add_option("-o,--output", arguments->output,
                 "File to write the priced graph to (may be GRAPH.json)")
      ->required()
      ->type_name("FILE");
  app.add_option("--profile", arguments->profile,
                 "File of measurements [this device's, in the cache]")
      ->type_name("FILE");
  app.add_option("--threads", arguments->threads, "Threads of the kernels")
      ->check(in_whole_range(1, 4096))
      ->type_name("N");
  app.add_flag("--measure-again", arguments->again,
               "Measure all ops once more and keep the smaller times");
  add_quiet_flag(app, arguments->quiet);
  add_json_flag(app, arguments->json);
  add_help(
      app,
      "Runs each distinct op (type, shapes, dtypes) once on random data through the real kernels\n"
      "and writes the graph with times, workspaces and allocation sequences. Measurements are\n"
      "kept in ~/.cache/lowtide, one file per device and number of threads, and reused; Ctrl-C\n"
      "keeps what was measured so far. Times from a busy machine are too long: --measure-again\n"
      "corrects them.",
      "  lowtide profile unet.json -o unet.json\n");
  return [arguments] { return profile(*arguments); };
}

}  // namespace lowtide::cli
