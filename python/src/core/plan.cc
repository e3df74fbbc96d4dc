#include "plan/plan.h"

#include <fmt/format.h>

#include "base/at.h"
#include "bindings.h"
#include "plan/io.h"
#include "plan/lower.h"
#include "plan/places.h"
#include "plan/replay.h"
#include "plan/verify.h"

namespace lowtide::python {
namespace {

using Release = py::call_guard<py::gil_scoped_release>;

std::string_view verb_name(Verb verb) {
  switch (verb) {
    case Verb::run: return "run";
    case Verb::free: return "free";
    case Verb::offload: return "offload";
    case Verb::prefetch: return "prefetch";
    case Verb::wait: return "wait";
  }
  return "run";
}

/// As in the file: ("run", 3), ("run", 3, [0]), ("free", 7).
py::list actions(const Plan& plan) {
  py::list list;
  for (const Action& a : plan.actions) {
    py::tuple action = py::make_tuple(verb_name(a.verb), a.index);
    if (!a.in_place.empty()) action = action + py::make_tuple(a.in_place);
    list.append(action);
  }
  return list;
}

std::optional<Bytes> arena_bytes(const Plan& plan) {
  return plan.layout ? std::optional(plan.layout->arena_bytes) : std::nullopt;
}

/// In the first place and in the second.
std::pair<Bytes, Bytes> bytes_of_residents_away(const Graph& graph, const Plan& plan) {
  if (!plan.slower) return {0, 0};
  const std::vector<PlaceIndex> places = places_of_copies(graph, plan);
  std::pair<Bytes, Bytes> bytes;
  for (const TensorId resident : plan.slower->residents) {
    const bool is_first = places[at(resident)] == PlaceIndex::first;
    (is_first ? bytes.first : bytes.second) += graph.tensor(resident).bytes;
  }
  return bytes;
}

void bind_plan_class(py::module_& module) {
  py::class_<Plan>(module, "Plan",
                   "A sequence of executions and frees; docs/reference/plan-format.md.")
      .def_static("load", &read_plan, py::arg("path"), Release())
      .def_static("parse", &parse_plan, py::arg("text"), py::arg("source") = "plan", Release())
      .def("save", &write_plan, py::arg("path"), Release())
      .def("format", &format_plan, Release())
      .def_readonly("graph", &Plan::graph)
      .def_readonly("strategy", &Plan::strategy)
      .def_readonly("budget_bytes", &Plan::budget_bytes)
      .def_property_readonly("actions", actions)
      .def_readonly("cost", &Plan::cost)
      .def_readonly("peak_bytes", &Plan::peak_bytes)
      .def_property_readonly("arena_bytes", arena_bytes)
      .def_property_readonly("slower_bytes",
                             [](const Plan& plan) { return plan.slower ? plan.slower->bytes : 0; })
      .def_property_readonly("slower_places",
                             [](const Plan& plan) {
                               const PlaceBytes bytes =
                                   plan.slower ? bytes_of_places(*plan.slower) : PlaceBytes{};
                               return std::pair(bytes.first, bytes.second);
                             })
      .def_property_readonly("residents_away",
                             [](const Plan& plan) {
                               return plan.slower ? plan.slower->residents
                                                  : std::vector<TensorId>{};
                             })
      .def_property_readonly("borders",
                             [](const Plan& plan) {
                               return plan.layout ? plan.layout->borders : std::vector<Bytes>{};
                             })
      .def_readonly("lower_bound", &Plan::lower_bound)
      .def_readonly("model", &Plan::model)
      .def_readonly("seconds", &Plan::seconds)
      .def(py::pickle(&format_plan, [](const std::string& text) { return parse_plan(text); }))
      .def("__repr__", [](const Plan& p) {
        return fmt::format("<lowtide.Plan of {} by {}: {} actions, peak {}>", p.graph, p.strategy,
                           p.actions.size(), format_bytes(p.peak_bytes));
      });
}

}  // namespace

void bind_plan(py::module_& module) {
  bind_plan_class(module);
  module.def("bytes_of_residents_away", &bytes_of_residents_away, py::arg("graph"),
             py::arg("plan"));
  py::class_<Violation>(module, "Violation", "A rule that a plan breaks.")
      .def_property_readonly("rule", [](const Violation& v) { return name(v.rule); })
      .def_property_readonly("action", [](const Violation& v) { return optional_index(v.action); })
      .def_readonly("message", &Violation::message)
      .def("__repr__", [](const Violation& v) {
        return fmt::format("<lowtide.Violation {}: {}>", name(v.rule), v.message);
      });
  py::class_<Replay>(module, "Replay", "What a plan costs and holds.")
      .def_readonly("cost", &Replay::cost)
      .def_readonly("peak_bytes", &Replay::peak_bytes)
      .def_readonly("peak_action", &Replay::peak_action)
      .def_readonly("memory", &Replay::memory)
      .def_readonly("live_at_peak", &Replay::live_at_peak)
      .def_readonly("workspace_at_peak", &Replay::workspace_at_peak);
  module.def("verify", &verify, py::arg("graph"), py::arg("plan"),
             py::arg("budget_bytes") = std::nullopt, Release());
  module.def("replay", &replay, py::arg("graph"), py::arg("plan"), Release());
  module.def("keep_all", &keep_all, py::arg("graph"), Release());
  module.def(
      "structural_floor_bytes", [](const Graph& g) { return structural_floor(g).bytes; },
      py::arg("graph"), Release());
}

}  // namespace lowtide::python
