#include <algorithm>
#include <tuple>

#include "bindings.h"
#include "plan/residents.h"
#include "report/explain.h"
#include "report/memory_plot.h"
#include "report/timeline.h"
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

/// By action: when it is reached, begins and ends.
std::vector<std::tuple<double, double, double>> moments(const Graph& graph, const Plan& plan) {
  std::vector<std::tuple<double, double, double>> found;
  for (const auto& [reached, begin, end] : report::timeline(graph, plan)) {
    found.emplace_back(reached, begin, end);
  }
  return found;
}

std::vector<std::pair<std::string, Bytes>> named(const std::vector<ResidentBytes>& residents) {
  std::vector<std::pair<std::string, Bytes>> found;
  for (const auto& [what, bytes] : residents) found.emplace_back(what, bytes);
  return found;
}

void bind_explanation(py::module_& module) {
  using report::Absence;
  using report::Explanation;
  py::class_<Absence>(module, "Absence",
                      "A value that is gone for a while, and the room meanwhile.")
      .def_readonly("value", &Absence::value)
      .def_readonly("bytes", &Absence::bytes)
      .def_readonly("last_used_in", &Absence::last_used_in)
      .def_readonly("back_for", &Absence::back_for)
      .def_readonly("tightest", &Absence::tightest)
      .def_readonly("room", &Absence::room);
  py::class_<Explanation::Held>(module, "Held", "A storage that is in memory at the peak.")
      .def_readonly("tensor", &Explanation::Held::tensor)
      .def_readonly("bytes", &Explanation::Held::bytes);
  py::class_<Explanation::Again>(module, "Again", "An op that runs more than once.")
      .def_readonly("op", &Explanation::Again::op)
      .def_readonly("runs", &Explanation::Again::runs)
      .def_readonly("cost", &Explanation::Again::cost)
      .def_readonly("absence", &Explanation::Again::absence);
  py::class_<Explanation::Moved>(module, "MovedValue", "A value that moves to slower memory.")
      .def_readonly("storage", &Explanation::Moved::storage)
      .def_readonly("times_back", &Explanation::Moved::times_back)
      .def_readonly("copies", &Explanation::Moved::copies)
      .def_readonly("waited", &Explanation::Moved::waited);
  py::class_<Explanation>(module, "Explanation", "The reasons for a plan's memory and cost.")
      .def_readonly("peak_bytes", &Explanation::peak_bytes)
      .def_property_readonly("peak_op",
                             [](const Explanation& e) { return optional_index(e.peak_op); })
      .def_readonly("resident_bytes", &Explanation::resident_bytes)
      .def_property_readonly("residents", [](const Explanation& e) { return named(e.residents); })
      .def_readonly("workspace_bytes", &Explanation::workspace_bytes)
      .def_readonly("held", &Explanation::held)
      .def_readonly("again", &Explanation::again)
      .def_readonly("moved", &Explanation::moved)
      .def_readonly("cost", &Explanation::cost)
      .def_readonly("keep_all_cost", &Explanation::keep_all_cost)
      .def_readonly("keep_all_peak_bytes", &Explanation::keep_all_peak_bytes)
      .def_property_readonly("overhead", &Explanation::overhead);
}

}  // namespace

void bind_report(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  bind_explanation(module);
  module.def("explain", &explained, py::arg("graph"), py::arg("plan"), py::arg("most") = 10,
             Release());
  module.def("explanation", &report::explain, py::arg("graph"), py::arg("plan"), Release());
  module.def("timeline", &moments, py::arg("graph"), py::arg("plan"), Release());
  module.def(
      "write_trace",
      [](const Graph& graph, const Plan& plan, const std::filesystem::path& path) {
        report::write_trace(graph, plan, {}, path);
      },
      py::arg("graph"), py::arg("plan"), py::arg("path"), Release());
  module.def("memory_plot", &memory_picture, py::arg("graph"), py::arg("plans"), py::arg("title"),
             py::arg("subtitle") = "", Release());
}

}  // namespace lowtide::python
