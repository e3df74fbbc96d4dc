#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completions/completions.h"

namespace lowtide::cli {
namespace {

constexpr std::string_view kZshHead = R"(#compdef lowtide
# Completions of lowtide for zsh: a file _lowtide in a folder of $fpath; or, for this shell,
# source <(lowtide completions zsh) after compinit.
_lowtide() {
)";

/// Called where zsh loads the file when it completes; where it is sourced, only defined.
constexpr std::string_view kZshTail = R"(    *) _default ;;
  esac
}
if [[ $funcstack[1] == _lowtide ]]; then
  _lowtide "$@"
else
  compdef _lowtide lowtide
fi
)";

/// Within single quotes, with a backslash before each of `special`.
std::string zsh_quoted(std::string_view text, std::string_view special) {
  std::string quoted;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) quoted += '\\';
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted;
}

std::string zsh_action(const Values& values) {
  switch (values.kind) {
    case Values::Kind::words: return fmt::format("({})", fmt::join(values.words, " "));
    case Values::Kind::file: return "_files";
    case Values::Kind::folder: return "_files -/";
    default: return "";
  }
}

/// ":MODEL:(mlp gpt)"; "" of a flag.
std::string zsh_value(const Completion& one) {
  if (one.values.kind == Values::Kind::none) return "";
  return fmt::format(":{}:{}", zsh_quoted(one.type, ":"), zsh_action(one.values));
}

/// One line for each name; those of one option exclude each other.
std::string zsh_specs(const Completion& one) {
  if (one.is_argument()) return fmt::format("        '{}' \\\n", zsh_value(one));
  const bool takes_value = one.values.kind != Values::Kind::none;
  const std::string excluded = fmt::format("({})", fmt::join(one.names, " "));
  std::string specs;
  for (const std::string& name : one.names) {
    const std::string_view joint = !takes_value ? "" : name.starts_with("--") ? "=" : "+";
    specs += fmt::format("        '{}{}{}[{}]{}' \\\n", one.is_repeatable ? "*" : excluded, name,
                         joint, zsh_quoted(one.help, "[]\\"), zsh_value(one));
  }
  return specs;
}

std::string zsh_arguments(const CLI::App& app) {
  std::string specs;
  for (const Completion& one : completions_of(app)) specs += zsh_specs(one);
  return fmt::format("_arguments -S \\\n{}        && return", specs);
}

}  // namespace

std::string zsh_completions(const CLI::App& app) {
  std::string names, commands;
  for (const CLI::App* command : commands_of(app)) {
    names += fmt::format("      '{}:{}'\n", command->get_name(),
                         zsh_quoted(command->get_description(), ":\\"));
    commands += fmt::format("    {})\n      {} ;;\n", command->get_name(), zsh_arguments(*command));
  }
  return fmt::format(
      "{}  if (( CURRENT == 2 )); then\n    local -a commands=(\n{}    )\n"
      "    _describe -t commands command commands\n    {}\n  fi\n"
      "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n{}{}",
      kZshHead, names, zsh_arguments(app), commands, kZshTail);
}

}  // namespace lowtide::cli
