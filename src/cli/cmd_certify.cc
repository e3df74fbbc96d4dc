#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "certify/check.h"
#include "certify/io.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "graph/io.h"
#include "plan/io.h"

namespace lowtide::cli {
namespace {

struct CertifyArguments {
  std::string graph, plan, certificate;
  bool json = false;
};

int report_verdict(const certify::Refused& refused, bool json) {
  const std::string message =
      fmt::format("refused for {}: {}", certify::name(refused.flaw), refused.message);
  std::cerr << "lowtide: " << message << '\n';
  if (json) {
    print_json({{"valid", false},
                {"status", "invalid"},
                {"error", message},
                {"flaw", certify::name(refused.flaw)}});
  }
  return kBadInput;
}

/// A plan may claim a higher bound than its certificate proves.
void remark_on_claim(const Plan& plan, const certify::Certified& certified) {
  const double claimed = plan.lower_bound.value_or(0);
  if (certify::is_proved(claimed, certified.lower_bound)) return;
  std::cerr << fmt::format(
                   "note: the plan itself claims that none costs less than {:.9g}; the certificate "
                   "proves {:.9g} of that",
                   claimed, certified.lower_bound)
            << '\n';
}

int report_verdict(const Graph& graph, const certify::Certified& certified, bool json) {
  if (json) {
    print_json({{"valid", true},
                {"status", "valid"},
                {"cost", certified.cost},
                {"peak_bytes", certified.peak_bytes},
                {"lower_bound", certified.lower_bound},
                {"proved", certified.proved},
                {"gap", certified.gap()},
                {"any_order", certified.any_order},
                {"keeps_order", certified.keeps_order}});
  } else {
    print(fmt::format("valid: the plan costs {} {}, no plan within the budget {} costs less than "
                      "{}; gap {:.3f}%{}\n",
                      certified.cost, graph.cost_unit(),
                      certified.any_order ? "in any order" : "that keeps the graph's order",
                      certified.lower_bound, 100 * certified.gap(),
                      certified.keeps_order ? "" : " (the plan has an order of its own)"));
  }
  return kSuccess;
}

int certify_files(const CertifyArguments& arguments) {
  const Graph graph = read_graph(arguments.graph);
  const Plan plan = read_plan(arguments.plan);
  const certify::Certificate certificate = certify::read_certificate(arguments.certificate);
  const auto verdict = certify::certify(graph, plan, certificate);
  if (const certify::Refused* refused = std::get_if<certify::Refused>(&verdict)) {
    return report_verdict(*refused, arguments.json);
  }
  remark_on_claim(plan, std::get<certify::Certified>(verdict));
  return report_verdict(graph, std::get<certify::Certified>(verdict), arguments.json);
}

}  // namespace

Action define_certify(CLI::App& app) {
  auto arguments = std::make_shared<CertifyArguments>();
  app.add_option("graph", arguments->graph, "Graph")->required()->type_name("GRAPH.json");
  app.add_option("plan", arguments->plan, "Plan for it")->required()->type_name("PLAN.json");
  app.add_option("certificate", arguments->certificate, "Proof of a bound, for the same budget")
      ->required()
      ->type_name("CERTIFICATE.json");
  add_json_flag(app, arguments->json);
  add_help(
      app,
      "A certificate has prices of memory. They prove by arithmetic that no plan within the\n"
      "budget costs less than a bound. This command checks the proof and the plan with separate\n"
      "code, so the planner need not be trusted. It refuses a wrong proof or plan with exit\n"
      "code 2 and the name of the flaw. `lowtide verify` checks the plan's addresses.",
      "  lowtide plan unet.json --budget 60% -o plan.json --certificate proof.json\n"
      "  lowtide certify unet.json plan.json proof.json\n");
  return [arguments] { return certify_files(*arguments); };
}

}  // namespace lowtide::cli
