#include "cli/signals.h"

#include <csignal>
#include <cstring>
#include <unistd.h>

#include "base/control.h"

namespace lowtide::cli {
namespace {

extern "C" void on_stop_signal(int) {
  Control::request_stop();
  constexpr const char* kMessage = "\nstopping; once more to kill\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kMessage, std::strlen(kMessage));
}

}  // namespace

void install_stop_handlers() {
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

}  // namespace lowtide::cli
