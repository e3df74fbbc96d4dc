#pragma once

#include <span>

#include "cli/command.h"

namespace lowtide::cli {

/// Parses the command line and runs the command. Prints help when asked. Throws InputError with the
/// nearest names for an unknown subcommand or option, and any exception of the Action.
int parse_and_run(std::span<const Command> commands, int argc, char** argv);

}  // namespace lowtide::cli
