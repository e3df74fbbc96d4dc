#include "planner/planner.h"

#include <fmt/format.h>

#include "base/error.h"
#include "bindings.h"
#include "certify/io.h"
#include "plan/replay.h"
#include "planner/frontier.h"
#include "planner/known_plans.h"
#include "planner/transfer.h"
#include "strategy/intervals/cp_sat.h"

namespace lowtide::python {
namespace {

Planned plan(const Graph& graph, std::string_view budget, std::optional<std::string> strategy,
             const StrategyOptions& options, double time_limit, KnownPlans* known) {
  const Budget parsed = parse_budget(budget);
  const Strategy& chosen = strategy ? find_strategy(*strategy) : default_strategy();
  const Bytes bytes = parsed.resolve(keep_all_reference(graph).peak_bytes);
  Control control(time_limit);
  Planned found = plan_within(graph, chosen, bytes, options, control);
  return known == nullptr ? found : known->best(std::move(found));
}

/// The text of the proof of the plan's lower bound.
std::optional<std::string> certificate(const Planned& planned) {
  if (!planned.certificate) return std::nullopt;
  return format_certificate(*planned.certificate);
}

Frontier walk(const Graph& graph, int points, std::optional<std::string> strategy,
              const StrategyOptions& options, double time_limit) {
  if (points < 2) throw InputError(fmt::format("points must be at least 2, not {}", points));
  Control control(time_limit);
  return frontier(graph, strategy ? find_strategy(*strategy) : default_strategy(), points, options,
                  control);
}

void bind_frontier(py::module_& module) {
  py::class_<Frontier>(module, "Frontier", "Cost against budget, budgets descending.")
      .def_readonly("points", &Frontier::points)
      .def_readonly("smallest_budget", &Frontier::smallest_budget)
      .def_readonly("stopped", &Frontier::stopped)
      .def("__repr__", [](const Frontier& f) {
        return fmt::format("<lowtide.Frontier of {} budgets>", f.points.size());
      });
  module.def("frontier", &walk, py::arg("graph"), py::arg("points"), py::arg("strategy"),
             py::arg("options"), py::arg("time_limit"), py::call_guard<py::gil_scoped_release>());
}

void bind_strategies(py::module_& module) {
  py::class_<StrategyOption>(module, "StrategyOption")
      .def_readonly("name", &StrategyOption::name)
      .def_readonly("help", &StrategyOption::help)
      .def_readonly("default", &StrategyOption::default_value)
      .def_readonly("low", &StrategyOption::low)
      .def_readonly("high", &StrategyOption::high);
  py::class_<Strategy>(module, "Strategy")
      .def_readonly("name", &Strategy::name)
      .def_readonly("summary", &Strategy::summary)
      .def_readonly("guarantee", &Strategy::guarantee)
      .def_readonly("paper", &Strategy::paper)
      .def_readonly("options", &Strategy::options)
      .def("__repr__",
           [](const Strategy& s) { return fmt::format("<lowtide.Strategy {}>", s.name); });
  module.def("strategies", [] {
    return std::vector<Strategy>(strategies().begin(), strategies().end());
  });
  module.def("default_strategy", [] { return default_strategy(); });
}

/// Strategies that need Python packages find those of this process.
void use_this_interpreter() {
  const py::object path = py::module_::import("sys").attr("executable");
  if (py::isinstance<py::str>(path) && py::len(path) > 0) {
    set_usual_interpreter(path.cast<std::string>());
  }
}

}  // namespace

void bind_planner(py::module_& module) {
  use_this_interpreter();
  bind_strategies(module);
  py::class_<Planned>(module, "Planned", "What planning within a budget found.")
      .def_property_readonly("outcome", [](const Planned& p) { return name(p.outcome); })
      .def_readonly("plan", &Planned::plan)
      .def_readonly("budget_bytes", &Planned::budget_bytes)
      .def_readonly("keep_all_cost", &Planned::keep_all_cost)
      .def_readonly("keep_all_peak_bytes", &Planned::keep_all_peak_bytes)
      .def_readonly("smallest_budget", &Planned::smallest_budget)
      .def_readonly("leanest", &Planned::leanest)
      .def_readonly("why_not_less", &Planned::why_not_less)
      .def_property_readonly("certificate", certificate)
      .def_readonly("seconds", &Planned::seconds)
      .def_readonly("repeatable", &Planned::repeatable)
      .def_readonly("message", &Planned::message)
      .def_property_readonly("overhead",
                             [](const Planned& p) {
                               return p.plan ? std::optional(p.overhead()) : std::nullopt;
                             })
      .def_property_readonly("gap", &Planned::gap)
      .def("__repr__", [](const Planned& p) {
        return fmt::format("<lowtide.Planned within {}: {}>", format_bytes(p.budget_bytes),
                           name(p.outcome));
      });
  py::class_<KnownPlans>(module, "KnownPlans", "The plans found for one graph and strategy.")
      .def(py::init<>());
  module.def("plan", &plan, py::arg("graph"), py::arg("budget"), py::arg("strategy"),
             py::arg("options"), py::arg("time_limit"), py::arg("known"),
             py::call_guard<py::gil_scoped_release>());
  module.def("transferred", &transferred, py::arg("graph"), py::arg("from_graph"), py::arg("plan"),
             py::arg("budget_bytes"), py::call_guard<py::gil_scoped_release>());
  bind_frontier(module);
  module.def("request_stop", &Control::request_stop);
  module.def("clear_stop", &Control::clear_stop);
  module.def(
      "resolve_budget",
      [](std::string_view budget, Bytes keep_all_peak) {
        return parse_budget(budget).resolve(keep_all_peak);
      },
      py::arg("budget"), py::arg("keep_all_peak_bytes"));
  module.def("format_bytes", &format_bytes, py::arg("bytes"));
}

}  // namespace lowtide::python
