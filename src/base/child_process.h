#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lowtide {

/// How a child process ended.
struct ChildResult {
  int exit_code = 0;    ///< 127 when the program could not be started
  bool killed = false;  ///< because `should_stop` said so
  std::string errors;   ///< its standard error
};

/// Runs a program, found in PATH, with this standard input. Passes each line of its standard output
/// to `on_line` at once, without the line end. Polls `should_stop` at least twenty times a second
/// and kills the child when it is true. Ctrl-C in the terminal does not reach the child. Throws
/// InputError when the system cannot open more files or start more processes.
ChildResult run_child(const std::vector<std::string>& command, const std::string& input,
                      const std::function<void(const std::string&)>& on_line,
                      const std::function<bool()>& should_stop);

}  // namespace lowtide
