#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/completions/completions.h"
#include "cli/output.h"

namespace lowtide::cli {
namespace {

struct CompletionsArguments {
  std::string shell;
  bool json = false;
};

std::string script_for(const std::string& shell, const CLI::App& app) {
  if (shell == "bash") return bash_completions(app);
  if (shell == "zsh") return zsh_completions(app);
  if (shell == "fish") return fish_completions(app);
  throw InputError(fmt::format("there are completions for bash, zsh and fish, not for \"{}\".{}",
                               shell, did_you_mean(shell, {"bash", "zsh", "fish"})));
}

int write_completions(const CompletionsArguments& arguments, const CLI::App& app) {
  const std::string script = script_for(arguments.shell, app);
  if (arguments.json) {
    print_json({{"shell", arguments.shell}, {"script", script}});
  } else {
    print_verbatim(script);
  }
  return kSuccess;
}

}  // namespace

Action define_completions(CLI::App& app) {
  auto arguments = std::make_shared<CompletionsArguments>();
  app.add_option("shell", arguments->shell, "bash, zsh or fish")->required()->type_name("SHELL");
  add_json_flag(app, arguments->json);
  add_help(
      app,
      "Prints a script by which a shell completes commands, options, and the names of models,\n"
      "strategies and devices.",
      "  source <(lowtide completions bash)\n"
      "  lowtide completions bash > ~/.local/share/bash-completion/completions/lowtide\n"
      "  lowtide completions fish > ~/.config/fish/completions/lowtide.fish\n");
  return [arguments, &app] { return write_completions(*arguments, *app.get_parent()); };
}

}  // namespace lowtide::cli
