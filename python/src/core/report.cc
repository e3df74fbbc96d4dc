#include <algorithm>

#include "bindings.h"
#include "plan/residents.h"
#include "report/explain.h"
#include "report/memory_plot.h"
#include "report/trace.h"

namespace lowtide::python {
namespace {

std::string explained(const Graph& graph, const Plan& plan, int most) {
  return report::format_explanation(graph, report::explain(graph, plan), most);
}

/// The first plan is the reference of the time axis.
std::string memory_picture(const Graph& graph,
                           const std::vector<std::pair<std::string, const Plan*>>& plans,
                           const std::string& title, const std::string& subtitle) {
  report::MemoryPlot plot{title, subtitle, {}, graph.resident_bytes()};
  for (const auto& [label, plan] : plans) {
    plot.curves.push_back(report::memory_curve(graph, *plan, label));
    plot.resident_bytes = std::min(plot.resident_bytes, staying_bytes(graph, *plan));
  }
  return report::format_memory_plot(plot);
}

}  // namespace

void bind_report(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  module.def("explain", &explained, py::arg("graph"), py::arg("plan"), py::arg("most") = 10,
             Release());
  module.def(
      "write_trace",
      [](const Graph& graph, const Plan& plan, const std::filesystem::path& path) {
        report::write_trace(graph, plan, {}, path);
      },
      py::arg("graph"), py::arg("plan"), py::arg("path"), Release());
  module.def("memory_plot", &memory_picture, py::arg("graph"), py::arg("plans"),
             py::arg("title"), py::arg("subtitle") = "", Release());
}

}  // namespace lowtide::python
