#include "cli/signals.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/control.h"

namespace lowtide::cli {
namespace {

extern "C" void on_stop_signal(int) {
  Control::request_stop();
  constexpr const char* kMessage = "\nstopping; once more to kill\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kMessage, std::strlen(kMessage));
}

/// The reader of the output has gone, as `head` does. No message: nobody would read it.
extern "C" void on_broken_pipe(int) { Control::request_stop(); }

}  // namespace

void install_stop_handlers() {
  struct sigaction action{};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  struct sigaction broken{};
  broken.sa_handler = on_broken_pipe;
  broken.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &broken, nullptr);
  // A write beyond the file size limit then fails with an error message, unlike the signal.
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGXFSZ, &ignore, nullptr);
}

}  // namespace lowtide::cli
