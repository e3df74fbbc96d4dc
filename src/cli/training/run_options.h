#pragma once

#include <filesystem>
#include <string>

#include "cli/arguments.h"
#include "train/options.h"

namespace lowtide::cli {

// Options that the commands share which run ops of a model.

/// --data, --text, --seed, --threads.
void add_data_options(CLI::App& app, Edits<train::TrainOptions>& edits);
void add_budget_option(CLI::App& app, Edits<train::TrainOptions>& edits);
/// --disk, --disk-budget.
void add_disk_options(CLI::App& app, Edits<train::TrainOptions>& edits);
/// An option that names a file.
void add_path(CLI::App& app, Edits<train::TrainOptions>& edits, const std::string& name,
              const std::string& help, std::filesystem::path train::TrainOptions::* field);
/// --profile, --measure-again.
void add_measurement_options(CLI::App& app, Edits<train::TrainOptions>& edits);

/// --host-budget, --host-bandwidth, --host-latency.
struct HostArguments {
  std::string budget, bandwidth;  ///< as they are given; empty: not
  double latency = 0;             ///< in microseconds
};
void add_host_options(CLI::App& app, HostArguments& arguments);
/// Those that are given replace those of the options. Throws InputError.
void apply(const HostArguments& arguments, train::MemoryOptions& memory);

/// Throws InputError for slower memory, or a limit of it, that nothing would use.
void require_used_places(const train::MemoryOptions& memory);

}  // namespace lowtide::cli
