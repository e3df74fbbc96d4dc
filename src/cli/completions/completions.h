#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lowtide::cli {

/// What an option or an argument takes, by the name of its type in --help.
struct Values {
  enum class Kind {
    none,     ///< of a flag
    unknown,  ///< cannot be listed, such as a number
    words,
    file,
    folder
  };
  Kind kind = Kind::none;
  std::vector<std::string> words;
};

/// An option, or an argument, as a shell is told of it.
struct Completion {
  std::vector<std::string> names;  ///< "--model", "-m"; none of an argument
  std::string help;                ///< one line
  std::string type;                ///< of its value: "MODEL"; "" of a flag
  Values values;
  bool is_repeatable = false;

  bool is_argument() const { return names.empty(); }
};

/// Those that the parser knows of a command.
std::vector<Completion> completions_of(const CLI::App& command);

/// The script for a shell, with all commands of `app`.
std::string bash_completions(const CLI::App& app);
std::string zsh_completions(const CLI::App& app);
std::string fish_completions(const CLI::App& app);

/// All commands of `app`, whether they were parsed or not.
inline std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace lowtide::cli
