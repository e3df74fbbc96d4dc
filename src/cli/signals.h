#pragma once

namespace lowtide::cli {

/// Ctrl-C (and SIGTERM) asks every phase to end with what it has; a second one kills.
void install_stop_handlers();

}  // namespace lowtide::cli
