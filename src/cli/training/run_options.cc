#include "cli/training/run_options.h"

#include <fmt/format.h>

#include "base/budget.h"
#include "base/error.h"
#include "cli/slower_memory.h"
#include "slower/disk.h"

namespace lowtide::cli {
namespace {

void set_budget(train::TrainOptions& o, const std::string& value) {
  o.memory.planning.budget = parse_budget(value);
}

}  // namespace

void add_data_options(CLI::App& app, Edits<train::TrainOptions>& edits) {
  const char* group = "Run";
  add_edit<std::string>(app, edits, "--data",
                        "synthetic, text:FILE, mnist:FOLDER or cifar10:FOLDER [synthetic]",
                        [](train::TrainOptions& o, const std::string& t) {
                          o.recipe.data = train::parse_data_source(t);
                        })
      ->type_name("DATA")
      ->group(group);
  add_edit<std::string>(app, edits, "--text", "The same as --data text:FILE",
                        [](train::TrainOptions& o, const std::string& t) {
                          o.recipe.data = train::parse_data_source("text:" + t);
                        })
      ->type_name("FILE")
      ->group(group);
  add_edit<std::uint64_t>(app, edits, "--seed", "Of parameters, dropout and batches [0]",
                          [](train::TrainOptions& o, std::uint64_t n) { o.recipe.seed = n; })
      ->check(whole_number())
      ->type_name("N")
      ->group(group);
  add_edit<int>(app, edits, "--threads", "Threads of the kernels [all cores]",
                [](train::TrainOptions& o, int n) { o.recipe.threads = n; })
      ->check(in_whole_range(1, 4096))
      ->type_name("N")
      ->group(group);
}

void add_budget_option(CLI::App& app, Edits<train::TrainOptions>& edits) {
  add_edit<std::string>(
      app, edits, "--budget",
      "Bytes (512MB, 1.5GiB) or a share of the keep-all peak (60%) [no limit: keep-all]",
      set_budget)
      ->type_name("BUDGET")
      ->group("Memory");
}

void add_disk_options(CLI::App& app, Edits<train::TrainOptions>& edits) {
  const char* group = "Memory";
  add_edit<std::string>(
      app, edits, "--disk",
      "Values, parameters and optimizer state may move to a file in this folder [none]",
      [](train::TrainOptions& o, const std::string& t) { o.memory.disk = t; })
      ->type_name("FOLDER")
      ->group(group);
  add_edit<std::string>(app, edits, "--disk-budget",
                        "Bytes of that file at most [nine tenths of what is free]",
                        [](train::TrainOptions& o, const std::string& t) {
                          o.memory.disk_bytes = parse_amount(t, "--disk-budget");
                        })
      ->type_name("BYTES")
      ->group(group);
}

void add_host_options(CLI::App& app, HostArguments& arguments) {
  const char* group = "Memory";
  app.add_option("--host-budget", arguments.budget,
                 "They may also move to so much memory of this machine beside the budget, before "
                 "they move to the disk [none]")
      ->type_name("BYTES")
      ->group(group);
  app.add_option("--host-bandwidth", arguments.bandwidth,
                 "As slow as a device's way to the host: 20GB/s, or 2GB/s,1.6GB/s for out and in "
                 "[as fast as memory is]")
      ->type_name("SPEED")
      ->group(group);
  app.add_option("--host-latency", arguments.latency, "Of each such copy, in microseconds [0]")
      ->check(in_range(0, kLargest))
      ->type_name("US")
      ->group(group);
}

void apply(const HostArguments& arguments, train::MemoryOptions& memory) {
  if (!arguments.budget.empty()) {
    memory.host_bytes = parse_amount(arguments.budget, "--host-budget");
    memory.host_speed.reset();
  }
  if (arguments.bandwidth.empty()) {
    if (arguments.latency > 0) throw InputError("--host-latency needs --host-bandwidth SPEED.");
    return;
  }
  if (!memory.host_bytes) throw InputError("--host-bandwidth needs --host-budget BYTES.");
  memory.host_speed = parse_speed(arguments.bandwidth, arguments.latency, "--host-bandwidth");
}

void add_path(CLI::App& app, Edits<train::TrainOptions>& edits, const std::string& name,
              const std::string& help, std::filesystem::path train::TrainOptions::* field) {
  add_edit<std::string>(
      app, edits, name, help,
      [field](train::TrainOptions& o, const std::string& path) { o.*field = path; })
      ->type_name("FILE")
      ->group("Files");
}

void add_measurement_options(CLI::App& app, Edits<train::TrainOptions>& edits) {
  add_path(app, edits, "--profile", "Measurements of the ops [this device's, in the cache]",
           &train::TrainOptions::profile);
  app.add_flag_callback(
         "--measure-again",
         [&edits] { edits.push_back([](train::TrainOptions& o) { o.measure_again = true; }); },
         "Measure all ops once more and keep the smaller times")
      ->group("Files");
}

void require_used_places(const train::MemoryOptions& memory) {
  const bool has_disk = !memory.disk.empty();
  if (!has_disk && memory.disk_bytes) throw InputError("--disk-budget needs --disk FOLDER.");
  if (memory.may_move() && !memory.planning.budget.is_limited()) {
    throw InputError(fmt::format("{} needs --budget: without one everything stays in memory.",
                                 has_disk ? "--disk" : "--host-budget"));
  }
  // Refuses a folder before anything is measured.
  if (has_disk) static_cast<void>(slower::Disk(memory.disk));
}

}  // namespace lowtide::cli
