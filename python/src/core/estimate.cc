#include "estimate/estimate.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "bindings.h"
#include "estimate/from_graph.h"
#include "report/estimate_text.h"

namespace lowtide::python {
namespace {

using estimate::Estimate;
using estimate::Part;

std::vector<Part> parts_of(const py::dict& bytes) {
  std::vector<Part> parts;
  for (const auto& [name, amount] : bytes) {
    estimate::add_to(parts, name.cast<std::string>(), amount.cast<Bytes>());
  }
  return parts;
}

std::vector<Part> largest_first(const py::dict& bytes) {
  std::vector<Part> parts = parts_of(bytes);
  std::ranges::stable_sort(parts, std::greater<>(), &Part::bytes);
  return parts;
}

py::dict by_name(const std::vector<Part>& parts) {
  py::dict bytes;
  for (const Part& part : parts) bytes[py::str(part.name)] = part.bytes;
  return bytes;
}

/// The peak is the sum of what is there at the peak.
Estimate made(std::string name, std::int64_t parameters, const py::dict& whole,
              const py::dict& by_layer, const py::dict& by_kind, const py::dict& at_peak,
              std::string peak_op, std::string peak_phase, std::vector<std::string> notes) {
  Estimate found{.name = std::move(name),
                 .parameters = parameters,
                 .whole = parts_of(whole),
                 .by_layer = largest_first(by_layer),
                 .by_kind = largest_first(by_kind),
                 .at_peak = parts_of(at_peak),
                 .peak_op = std::move(peak_op),
                 .peak_phase = std::move(peak_phase),
                 .notes = std::move(notes)};
  found.peak_bytes = estimate::sum(found.at_peak);
  return found;
}

Estimate with_plan(Estimate found, Bytes budget, std::string strategy, Bytes peak,
                   double overhead) {
  found.planned = {budget, std::move(strategy), peak, overhead};
  return found;
}

}  // namespace

void bind_estimate(py::module_& module) {
  const auto property = [](std::vector<Part> Estimate::* parts) {
    return [parts](const Estimate& found) { return by_name(found.*parts); };
  };
  py::class_<Estimate>(module, "Estimate")
      .def(py::init(&made), py::kw_only(), py::arg("name"), py::arg("parameters"),
           py::arg("whole"), py::arg("by_layer"), py::arg("by_kind"), py::arg("at_peak"),
           py::arg("peak_op"), py::arg("peak_phase"), py::arg("notes"))
      .def_readonly("name", &Estimate::name)
      .def_readonly("parameters", &Estimate::parameters)
      .def_property_readonly("whole", property(&Estimate::whole))
      .def_property_readonly("by_layer", property(&Estimate::by_layer))
      .def_property_readonly("by_kind", property(&Estimate::by_kind))
      .def_property_readonly("at_peak", property(&Estimate::at_peak))
      .def_readonly("peak_bytes", &Estimate::peak_bytes)
      .def_readonly("in_place_peak_bytes", &Estimate::in_place_peak_bytes)
      .def_readonly("peak_op", &Estimate::peak_op)
      .def_readonly("peak_phase", &Estimate::peak_phase)
      .def_readonly("notes", &Estimate::notes)
      .def_property_readonly("planned_peak_bytes",
                             [](const Estimate& found) {
                               return found.planned ? std::optional(found.planned->peak_bytes)
                                                    : std::nullopt;
                             })
      .def_property_readonly("planned_overhead",
                             [](const Estimate& found) {
                               return found.planned ? std::optional(found.planned->overhead)
                                                    : std::nullopt;
                             })
      .def("with_plan", &with_plan, py::arg("budget"), py::arg("strategy"), py::arg("peak"),
           py::arg("overhead"))
      .def("to_json",
           [](const Estimate& found) { return report::estimate_json(found).dump(2); })
      .def("__str__", [](const Estimate& found) { return report::format_estimate(found); });
  module.def("estimate_graph", &estimate::from_graph, py::arg("graph"),
             py::call_guard<py::gil_scoped_release>());
}

}  // namespace lowtide::python
