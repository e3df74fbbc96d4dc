#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/control.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "graph/io.h"
#include "ordering/least_peak.h"
#include "ordering/schedule.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "report/table.h"

namespace lowtide::cli {
namespace {

struct OrderArguments {
  std::string graph;
  double work = 1;
  double seconds = 30;
  bool json = false;
};

/// Bytes at the peak when every op runs once.
struct Peaks {
  Bytes given = 0;           ///< in the graph's order, without writes in place
  Bytes given_in_place = 0;  ///< in the graph's order
  Bytes best = 0;            ///< in the order found, with writes in place
  Bytes bound = 0;           ///< no order needs less
  bool proven() const { return best == bound; }
};

Peaks peaks_of(const Graph& graph, double work, const Control& control) {
  const remat::StageGraph stages(graph);
  const ordering::LeastPeak least =
      ordering::least_peak(stages, ordering::Precedence(graph, stages), {.work = work}, control);
  const auto in_place = [&](const Plan& plan) { return with_in_place(graph, plan).peak_bytes; };
  const Plan given = keep_all(graph);
  return {given.peak_bytes, in_place(given),
          in_place(lower(graph, ordering::ops_of(stages, least.stages))), least.bound};
}

std::string saved(const Peaks& peaks, Bytes bytes) {
  if (peaks.given == 0) return "0.0%";
  return fmt::format("{:.1f}%",
                     100 * (1 - static_cast<double>(bytes) / static_cast<double>(peaks.given)));
}

std::string order_summary(const Graph& graph, const Peaks& peaks) {
  report::Table table({fmt::format("{}: every op once", graph.name()), "peak", "saved"});
  const auto add = [&](const char* how, Bytes bytes) {
    table.add({how, format_bytes(bytes), saved(peaks, bytes)});
  };
  add("in the order of the graph", peaks.given);
  add("with writes in place", peaks.given_in_place);
  add("in the best order found", peaks.best);
  add("in any order, at least", peaks.bound);
  return table.text(output_columns()) +
         (peaks.proven() ? "No order needs less: proven.\n"
                         : "Whether an order between the two exists is open.\n");
}

int show_order(const OrderArguments& arguments) {
  const Graph graph = read_graph(arguments.graph);
  const Control control(arguments.seconds);
  const Peaks peaks = peaks_of(graph, arguments.work, control);
  if (arguments.json) {
    print_json({{"graph", graph.name()},
                {"status", peaks.proven() ? "optimal" : "feasible"},
                {"keep_all_peak_bytes", peaks.given},
                {"in_place_peak_bytes", peaks.given_in_place},
                {"ordered_peak_bytes", peaks.best},
                {"lower_bound_bytes", peaks.bound},
                {"proven", peaks.proven()}});
  } else {
    print(order_summary(graph, peaks));
  }
  return Control::stop_requested() ? kStopped : kSuccess;
}

}  // namespace

Action define_order(CLI::App& app) {
  auto arguments = std::make_shared<OrderArguments>();
  app.add_option("graph", arguments->graph, "Graph to order")->required()->type_name("GRAPH.json");
  app.add_option("--work", arguments->work, "On the search for an order; 1 takes seconds [1]")
      ->check(in_range(0, kLargest))
      ->type_name("X");
  app.add_option("--time-limit", arguments->seconds, "Seconds at most; 0: no limit [30]")
      ->check(in_range(0, kLargest))
      ->type_name("SECONDS");
  add_json_flag(app, arguments->json);
  add_help(app,
           "Prints the peak memory that another order of the ops saves when nothing runs again,\n"
           "and the limit for all orders. The order computes the same to the last bit. `lowtide\n"
           "plan` uses such an order by itself, also with --strategy keep-all.",
           "  lowtide order vgg16.json\n"
           "  lowtide plan vgg16.json --strategy keep-all --budget 85%\n");
  return [arguments] { return show_order(*arguments); };
}

}  // namespace lowtide::cli
