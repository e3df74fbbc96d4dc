#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <string>

/// The main of a benchmark: `define` adds options that fill `Arguments`, `run` takes them. What
/// goes wrong is said behind the benchmark's name, and makes the exit code 1.
template <typename Arguments, typename Run>
int bench_main(int argc, char** argv, const std::string& name, const std::string& description,
               void (*define)(CLI::App&, Arguments&), Run run) {
  CLI::App app{description};
  Arguments arguments;
  define(app, arguments);
  CLI11_PARSE(app, argc, argv);
  try {
    run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
  return 0;
}
