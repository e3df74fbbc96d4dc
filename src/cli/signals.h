#pragma once

namespace lowtide::cli {

/// Ctrl-C (and SIGTERM, SIGHUP) asks every phase to end with its results so far; a second one kills
/// the process. A reader that closes the output has the same effect as the first.
void install_stop_handlers();

}  // namespace lowtide::cli
