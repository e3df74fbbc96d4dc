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

/// Throws InputError for a disk, or a limit of it, that nothing would use.
void require_used_disk(const train::MemoryOptions& memory);

}  // namespace lowtide::cli
