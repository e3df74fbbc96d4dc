#include "bindings.h"
#include "cost/roofline.h"

namespace lowtide::python {
namespace {

const cost::DeviceRates& rates_of(const std::optional<std::string>& like) {
  return like ? cost::find_device(*like) : cost::default_rates();
}

Graph estimated(const Graph& graph, const std::vector<std::optional<double>>& flops,
                const std::optional<std::string>& like) {
  if (flops.size() != graph.ops().size()) throw py::value_error("one count for each op");
  return cost::roofline_priced(graph, rates_of(like), flops);
}

}  // namespace

void bind_cost(py::module_& module) {
  py::class_<cost::DeviceRates>(module, "DeviceRates")
      .def_readonly("name", &cost::DeviceRates::name)
      .def_readonly("title", &cost::DeviceRates::title)
      .def_readonly("maker", &cost::DeviceRates::maker)
      .def_readonly("memory_bytes", &cost::DeviceRates::memory_bytes)
      .def_readonly("cuda_capability", &cost::DeviceRates::cuda_capability);
  module.def("device_names", [] {
    std::vector<std::string> names;
    for (const cost::DeviceRates& device : cost::known_devices()) names.push_back(device.name);
    return names;
  });
  module.def("device_rates", &cost::find_device, py::arg("name"),
             py::return_value_policy::reference);
  module.def("estimated", &estimated, py::arg("graph"), py::arg("flops"),
             py::arg("like") = std::nullopt, py::call_guard<py::gil_scoped_release>());
  module.def("cost_origin", &cost::cost_origin, py::arg("graph"));
}

}  // namespace lowtide::python
