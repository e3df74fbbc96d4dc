#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "cli/completions/completions.h"

namespace lowtide::cli {
namespace {

constexpr std::string_view kBashHead =
    R"(# Completions of lowtide for bash. For this shell: source <(lowtide completions bash)
_lowtide() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} kind=words words=
  # Bash takes --option=value apart, into three words.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
)";

constexpr std::string_view kBashTail = R"(
  COMPREPLY=()
  case $kind in
    words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word") ;;
    file) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    folder) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
  esac
  [[ $kind == words ]] || compopt -o filenames 2>/dev/null
}
complete -F _lowtide lowtide
)";

std::string bash_kind(const Completion& one) {
  switch (one.values.kind) {
    case Values::Kind::words: return fmt::format("words=$list_{}", one.type);
    case Values::Kind::file: return "kind=file";
    case Values::Kind::folder: return "kind=folder";
    default: return "kind=unknown";
  }
}

std::string joined_names(const std::vector<Completion>& all) {
  std::vector<std::string> names;
  for (const Completion& one : all) names.insert(names.end(), one.names.begin(), one.names.end());
  return fmt::format("{}", fmt::join(names, " "));
}

/// Lists that several options share.
std::string bash_lists(const CLI::App& app) {
  std::map<std::string, std::string> lists;
  for (const CLI::App* command : commands_of(app)) {
    for (const Completion& one : completions_of(*command)) {
      if (one.values.kind != Values::Kind::words) continue;
      lists[one.type] = fmt::format("{}", fmt::join(one.values.words, " "));
    }
  }
  std::string text;
  for (const auto& [type, words] : lists)
    text += fmt::format("  local list_{}='{}'\n", type, words);
  return text;
}

/// An argument is what follows neither an option that takes a value nor begins with "-".
std::string bash_command(const CLI::App& command) {
  const std::vector<Completion> all = completions_of(command);
  std::map<std::string, std::vector<std::string>> by_kind;
  std::string argument = "kind=unknown";
  for (const Completion& one : all) {
    if (one.is_argument()) {
      argument = bash_kind(one);
    } else if (one.values.kind != Values::Kind::none) {
      auto& names = by_kind[bash_kind(one)];
      names.insert(names.end(), one.names.begin(), one.names.end());
    }
  }
  std::string text = fmt::format("    {})\n      case $before in\n", command.get_name());
  for (const auto& [kind, names] : by_kind) {
    text += fmt::format("        {}) {} ;;\n", fmt::join(names, "|"), kind);
  }
  return text + fmt::format("        *) if [[ $word == -* ]]; then words='{}'; else {}; fi ;;\n"
                            "      esac ;;\n",
                            joined_names(all), argument);
}

}  // namespace

std::string bash_completions(const CLI::App& app) {
  std::vector<std::string> first;
  std::string commands;
  for (const CLI::App* command : commands_of(app)) {
    first.push_back(command->get_name());
    commands += bash_command(*command);
  }
  return fmt::format(
      "{}{}  if ((COMP_CWORD == 1)); then\n    words='{} {}'\n  else case ${{COMP_WORDS[1]}} in\n"
      "{}    *) kind=unknown ;;\n  esac; fi{}",
      kBashHead, bash_lists(app), fmt::join(first, " "), joined_names(completions_of(app)),
      commands, kBashTail);
}

}  // namespace lowtide::cli
