#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lowtide {

/// How a child process ended.
struct ChildResult {
  int exit_code = 0;    ///< 127 when the program could not be started
  bool killed = false;  ///< because `should_stop` said so
  std::string errors;   ///< what it wrote to standard error
};

/// Runs a program, found in PATH, with that standard input; gives each line of its standard output
/// to `on_line` as it comes, without the line end. Kills it as soon as `should_stop` is true, which
/// is asked at least twenty times a second. Ctrl-C in the terminal does not reach the child. Throws
/// InputError when the system has no room for files or processes.
ChildResult run_child(const std::vector<std::string>& command, const std::string& input,
                      const std::function<void(const std::string&)>& on_line,
                      const std::function<bool()>& should_stop);

}  // namespace lowtide
