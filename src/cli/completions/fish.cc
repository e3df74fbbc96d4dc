#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completions/completions.h"

namespace lowtide::cli {
namespace {

constexpr std::string_view kFishHead =
    "# Completions of lowtide for fish. For all shells to come:\n"
    "#   lowtide completions fish > ~/.config/fish/completions/lowtide.fish\n"
    "complete -c lowtide -f\n";

std::string fish_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string fish_value(const Values& values) {
  switch (values.kind) {
    case Values::Kind::none: return "";
    case Values::Kind::unknown: return " -x";
    case Values::Kind::words:
      return " -x -a " + fish_quoted(fmt::format("{}", fmt::join(values.words, " ")));
    case Values::Kind::file: return " -r -F";
    case Values::Kind::folder: return " -x -a '(__fish_complete_directories)'";
  }
  return "";
}

/// What is no option needs no value that follows: fish is only told what it may be.
std::string fish_argument(const Values& values) {
  if (values.kind == Values::Kind::file) return " -F";
  const std::string words = fmt::format("{}", fmt::join(values.words, " "));
  return words.empty() ? "" : " -a " + fish_quoted(words);
}

std::string fish_line(std::string_view where, const Completion& one) {
  std::string names;
  for (const std::string& name : one.names) {
    names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  const std::string value = one.is_argument() ? fish_argument(one.values) : fish_value(one.values);
  return fmt::format("complete -c lowtide -n {}{}{} -d {}\n", fish_quoted(where), names, value,
                     fish_quoted(one.help));
}

}  // namespace

std::string fish_completions(const CLI::App& app) {
  constexpr std::string_view kFirst = "__fish_use_subcommand";
  std::string text(kFishHead);
  for (const Completion& one : completions_of(app)) text += fish_line(kFirst, one);
  for (const CLI::App* command : commands_of(app)) {
    text += fmt::format("complete -c lowtide -n {} -a {} -d {}\n", fish_quoted(kFirst),
                        command->get_name(), fish_quoted(command->get_description()));
    const std::string where = "__fish_seen_subcommand_from " + command->get_name();
    for (const Completion& one : completions_of(*command)) text += fish_line(where, one);
  }
  return text;
}

}  // namespace lowtide::cli
