#include "cli/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/output.h"

namespace lowtide::cli {
namespace {

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// Throws when no option or argument accepted a part of the command line.
void refuse_unknown(const CLI::App& app, const CLI::App* chosen,
                    std::span<const Command> commands) {
  const std::vector<std::string> left = app.remaining(true);
  if (left.empty()) return;
  const std::string name = left.front().substr(0, left.front().find('='));
  if (!chosen && name[0] != '-') {
    std::vector<std::string> names;
    for (const Command& command : commands) names.emplace_back(command.name);
    throw InputError(fmt::format("unknown command \"{}\".{} `lowtide --help` lists them.", name,
                                 did_you_mean(name, names)));
  }
  const std::string help = chosen ? "lowtide " + chosen->get_name() : "lowtide";
  if (name[0] != '-') {
    throw InputError(fmt::format("unexpected argument \"{}\". See `{} --help`.", name, help));
  }
  throw InputError(fmt::format("unknown option \"{}\".{} See `{} --help`.", name,
                               did_you_mean(name, option_names(chosen ? *chosen : app)), help));
}

/// Throws when an option was given as "", for example by a script whose variable is not set.
void refuse_empty(const CLI::App& chosen) {
  for (const CLI::Option* option : chosen.get_options()) {
    if (option->count() == 0 || !std::ranges::count(option->results(), "")) continue;
    throw InputError(fmt::format("{} was given an empty value. See `lowtide {} --help`.",
                                 option->get_name(), chosen.get_name()));
  }
}

const CLI::App* chosen_in(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? nullptr : chosen.front();
}

void set_up(CLI::App& app) {
  app.set_version_flag("--version", "lowtide " LOWTIDE_VERSION);
  app.allow_extras();  // inherited; refuse_unknown() suggests similar names
  app.get_formatter()->column_width(34);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

}  // namespace

int parse_and_run(std::span<const Command> commands, int argc, char** argv) {
  CLI::App app(
      "Trains neural networks within a budget of bytes: decides which values to keep and which "
      "to recompute,\ngives every byte an address, and runs the step so that the budget is kept.",
      "lowtide");
  set_up(app);
  std::map<const CLI::App*, Action> actions;
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    actions[sub] = command.define(*sub);
  }
  app.footer("`lowtide COMMAND --help` explains a command, with examples.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    std::ostringstream text;
    const int code = app.exit(help, text);
    print(text.str());
    return code;
  } catch (const CLI::ParseError& e) {
    refuse_unknown(app, chosen_in(app), commands);
    throw InputError(e.what());
  }
  const CLI::App* chosen = chosen_in(app);
  refuse_unknown(app, chosen, commands);
  if (!chosen) throw InputError("which command? `lowtide --help` lists them.");
  refuse_empty(*chosen);
  return actions.at(chosen)();
}

}  // namespace lowtide::cli
