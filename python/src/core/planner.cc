#include "planner/planner.h"

#include <fmt/format.h>

#include <variant>

#include "base/budget.h"
#include "base/error.h"
#include "bindings.h"
#include "certify/io.h"
#include "layout/sections.h"
#include "offload/joint.h"
#include "offload/residents.h"
#include "plan/places.h"
#include "plan/replay.h"
#include "planner/frontier.h"
#include "planner/known_plans.h"
#include "planner/more_budget.h"
#include "planner/resolve.h"
#include "planner/transfer.h"
#include "strategy/intervals/cp_sat.h"

namespace pybind11::detail {

/// A bool, an int, a float or a str. Others are a TypeError.
template <>
struct type_caster<lowtide::strategy::OptionValue> {
  PYBIND11_TYPE_CASTER(lowtide::strategy::OptionValue, const_name("float | str"));

  type_caster() : value(0) {}
  bool load(handle source, bool /*convert*/) {
    if (isinstance<str>(source)) {
      value = lowtide::strategy::OptionValue(source.cast<std::string>());
    } else if (PyNumber_Check(source.ptr()) != 0) {
      const float_ number(reinterpret_borrow<object>(source));
      value = lowtide::strategy::OptionValue(number.cast<double>());
    } else {
      return false;
    }
    return true;
  }
};

}  // namespace pybind11::detail

namespace lowtide::python {
namespace {

planner::Planned plan(const Graph& graph, const Budget& budget, std::optional<std::string> strategy,
                      const strategy::GivenOptions& options, double time_limit,
                      planner::KnownPlans* known) {
  const strategy::Strategy& chosen =
      strategy ? strategy::find_strategy(*strategy) : strategy::default_strategy();
  const Bytes bytes = planner::resolve(budget, graph);
  Control control(time_limit);
  planner::Planned found = planner::plan_within(graph, chosen, bytes, options, control);
  return known == nullptr ? found : known->best(graph, std::move(found));
}

using GivenSpeed = std::pair<double, double>;  // seconds, and bytes per second (0: no limit)
using GivenLanes = std::tuple<GivenSpeed, GivenSpeed, bool>;  // out, in, shared

Lanes lanes_of(const GivenLanes& given) {
  const auto& [out, in, shared] = given;
  return offload::lanes_of({{out.first, out.second}, {in.first, in.second}, shared});
}

/// How fast a place of slower memory is, and the bytes that it has for values.
using GivenPlace = std::pair<GivenLanes, std::optional<Bytes>>;

/// The limit is that of all searches with one place together; those with two have as much each.
planner::Planned plan_moving(const Graph& graph, Bytes budget,
                             const std::optional<std::string>& strategy, const GivenPlace& place,
                             const std::optional<GivenPlace>& second, double time_limit,
                             bool residents) {
  const offload::Ways ways = offload::ways_of(strategy.value_or(""));
  double searches = ways == offload::Ways::both ? 3 : 1;  // with moves, with reruns, with both
  if (residents) searches += ways == offload::Ways::both ? 2 : 1;  // with moves, with both
  Control control(time_limit / searches);
  offload::Slower slower{
      .lanes = lanes_of(place.first), .bytes = place.second, .residents = residents};
  if (second) slower.second = {.lanes = lanes_of(second->first), .bytes = second->second};
  return offload::plan_with(graph, budget, slower, ways, control);
}

Plan with_speeds(const Graph& graph, const Plan& plan, const GivenLanes& place,
                 const std::optional<GivenLanes>& second) {
  return with_lanes(graph, plan, {lanes_of(place), second ? lanes_of(*second) : Lanes{}});
}

void require_options(std::string_view strategy, const strategy::GivenOptions& given) {
  strategy::complete_options(strategy::find_strategy_or_default(strategy), given);
}

/// The text of the proof of the plan's lower bound.
std::optional<std::string> certificate(const planner::Planned& planned) {
  if (!planned.certificate) return std::nullopt;
  return certify::format_certificate(*planned.certificate);
}

planner::Frontier walk(const Graph& graph, int points, std::optional<std::string> strategy,
                       const strategy::GivenOptions& options, double time_limit) {
  if (points < 2) throw InputError(fmt::format("points must be at least 2, not {}", points));
  Control control(time_limit);
  return planner::frontier(
      graph, strategy ? strategy::find_strategy(*strategy) : strategy::default_strategy(), points,
      options, control);
}

void bind_frontier(py::module_& module) {
  py::class_<planner::Frontier>(module, "Frontier", "Cost against budget, budgets descending.")
      .def_readonly("points", &planner::Frontier::points)
      .def_readonly("smallest_budget", &planner::Frontier::smallest_budget)
      .def_readonly("floor_bytes", &planner::Frontier::floor_bytes)
      .def_readonly("stopped", &planner::Frontier::stopped)
      .def("__repr__", [](const planner::Frontier& f) {
        return fmt::format("<lowtide.Frontier of {} budgets>", f.points.size());
      });
  module.def("frontier", &walk, py::arg("graph"), py::arg("points"), py::arg("strategy"),
             py::arg("options"), py::arg("time_limit"), py::call_guard<py::gil_scoped_release>());
}

void bind_strategies(py::module_& module) {
  py::class_<strategy::StrategyOption>(module, "StrategyOption")
      .def_readonly("name", &strategy::StrategyOption::name)
      .def_readonly("help", &strategy::StrategyOption::help)
      .def_property_readonly(
          "kind", [](const strategy::StrategyOption& o) { return strategy::name(o.kind); })
      .def_readonly("unit", &strategy::StrategyOption::unit)
      .def_property_readonly("default",
                             [](const strategy::StrategyOption& o) {
                               return strategy::format_value(o, o.default_value);
                             })
      .def_property_readonly("allowed", &strategy::allowed_values);
  py::class_<strategy::Strategy>(module, "Strategy")
      .def_readonly("name", &strategy::Strategy::name)
      .def_readonly("summary", &strategy::Strategy::summary)
      .def_readonly("guarantee", &strategy::Strategy::guarantee)
      .def_readonly("paper", &strategy::Strategy::paper)
      .def_readonly("options", &strategy::Strategy::options)
      .def("__repr__", [](const strategy::Strategy& s) {
        return fmt::format("<lowtide.Strategy {}>", s.name);
      });
  module.def("strategies", [] {
    return std::vector<strategy::Strategy>(strategy::strategies().begin(),
                                           strategy::strategies().end());
  });
  module.def("default_strategy", [] { return strategy::default_strategy(); });
  module.def("require_options", &require_options, py::arg("strategy"), py::arg("options"));
}

void bind_budget(py::module_& module) {
  py::class_<Budget>(module, "Budget", "Bytes, or a percentage of keep-all's peak.")
      .def(py::init(&parse_budget), py::arg("text"))
      .def_property_readonly("bytes",
                             [](const Budget& budget) {
                               const Bytes* bytes = std::get_if<Bytes>(&budget.value);
                               return bytes ? std::optional(*bytes) : std::nullopt;
                             })
      .def_property_readonly("percent",
                             [](const Budget& budget) {
                               const auto* share = std::get_if<Budget::Share>(&budget.value);
                               return share ? std::optional(share->percent) : std::nullopt;
                             })
      .def("resolve", &Budget::resolve, py::arg("keep_all_peak_bytes"));
  module.def("parse_amount", &parse_amount, py::arg("text"), py::arg("what"));
}

/// Strategies that need Python packages find those of this process.
void use_this_interpreter() {
  const py::object path = py::module_::import("sys").attr("executable");
  if (py::isinstance<py::str>(path) && py::len(path) > 0) {
    strategy::intervals::set_usual_interpreter(path.cast<std::string>());
  }
}

}  // namespace

void bind_planner(py::module_& module) {
  use_this_interpreter();
  bind_budget(module);
  bind_strategies(module);
  py::class_<planner::Planned>(module, "Planned", "What planning within a budget found.")
      .def_property_readonly("outcome",
                             [](const planner::Planned& p) { return strategy::name(p.outcome); })
      .def_readonly("plan", &planner::Planned::plan)
      .def_readonly("budget_bytes", &planner::Planned::budget_bytes)
      .def_readonly("keep_all_cost", &planner::Planned::keep_all_cost)
      .def_readonly("keep_all_peak_bytes", &planner::Planned::keep_all_peak_bytes)
      .def_readonly("smallest_budget", &planner::Planned::smallest_budget)
      .def_readonly("smallest_plan", &planner::Planned::smallest_plan)
      .def_readonly("why_not_less", &planner::Planned::why_not_less)
      .def_property_readonly("certificate", certificate)
      .def_readonly("seconds", &planner::Planned::seconds)
      .def_readonly("repeatable", &planner::Planned::repeatable)
      .def_readonly("message", &planner::Planned::message)
      .def_property_readonly("overhead",
                             [](const planner::Planned& p) {
                               return p.plan ? std::optional(p.overhead()) : std::nullopt;
                             })
      .def_property_readonly("gap", &planner::Planned::gap)
      .def_property_readonly("least_overhead", &planner::Planned::least_overhead)
      .def("__repr__", [](const planner::Planned& p) {
        return fmt::format("<lowtide.Planned within {}: {}>", format_bytes(p.budget_bytes),
                           strategy::name(p.outcome));
      });
  py::class_<planner::KnownPlans>(module, "KnownPlans",
                                  "The plans found for one graph and strategy.")
      .def(py::init<>());
  module.def("plan", &plan, py::arg("graph"), py::arg("budget"), py::arg("strategy"),
             py::arg("options"), py::arg("time_limit"), py::arg("known"),
             py::call_guard<py::gil_scoped_release>());
  module.def("plan_moving", &plan_moving, py::arg("graph"), py::arg("budget_bytes"),
             py::arg("strategy"), py::arg("place"), py::arg("second"), py::arg("time_limit"),
             py::arg("residents"), py::call_guard<py::gil_scoped_release>());
  module.def("with_speeds", &with_speeds, py::arg("graph"), py::arg("plan"), py::arg("place"),
             py::arg("second"), py::call_guard<py::gil_scoped_release>());
  module.def(
      "times_of_copies",
      [](const Graph& graph, const Plan& plan) {
        const PlaceTimes times = times_of_copies(graph, plan);
        return std::pair(times.first, times.second);
      },
      py::arg("graph"), py::arg("plan"), py::call_guard<py::gil_scoped_release>());
  module.def(
      "floor_with_residents_away",
      [](const Graph& graph) {
        return structural_floor(graph, offload::movable_residents(graph)).bytes;
      },
      py::arg("graph"), py::call_guard<py::gil_scoped_release>());
  module.def(
      "require_moving_strategy",
      [](const std::string& strategy) { static_cast<void>(offload::ways_of(strategy)); },
      py::arg("strategy"));
  module.def(
      "describe_speed", [](const GivenLanes& lanes) { return offload::describe(lanes_of(lanes)); },
      py::arg("speed"));
  module.def("worth_asking_for", &planner::worth_asking_for, py::arg("budget_bytes"));
  module.def("transfer", &planner::transfer, py::arg("graph"), py::arg("from_graph"),
             py::arg("plan"), py::arg("budget_bytes"), py::call_guard<py::gil_scoped_release>());
  module.def("needed_bytes", &layout::needed_bytes, py::arg("graph"), py::arg("plan"));
  bind_frontier(module);
  module.def("request_stop", &Control::request_stop);
  module.def("clear_stop", &Control::clear_stop);
  module.def("format_bytes", &format_bytes, py::arg("bytes"));
}

}  // namespace lowtide::python
