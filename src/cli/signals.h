#pragma once

namespace lowtide::cli {

/// Ctrl-C (and SIGTERM, SIGHUP) asks every phase to end with what it has; a second one kills. So does
/// a reader of the output that goes away.
void install_stop_handlers();

}  // namespace lowtide::cli
