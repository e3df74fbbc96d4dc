#include <torch/csrc/Generator.h>

#include "simulated/backend.h"
#include "simulated/generator.h"
#include "simulated/simulated_device.h"
#include "tensors.h"

namespace lowtide::python {
namespace {

void install_simulated(Bytes bytes, bool late, std::uint64_t seed) {
  simulated::install({bytes, late, seed});
  device::add_device(simulated::simulated_device());
}

py::object simulated_generator() {
  return py::reinterpret_steal<py::object>(THPGenerator_Wrap(simulated::default_generator()));
}

}  // namespace

void bind_simulated(py::module_& module) {
  module.def("install_simulated", &install_simulated, py::arg("bytes"), py::arg("late"),
             py::arg("seed"));
  module.def("reseed_simulated", &simulated::reseed, py::arg("seed"));
  module.def("simulated_launches", &simulated::launches);
  module.def("refuse_simulated_request", &simulated::refuse_request, py::arg("count"));
  module.def("simulated_generator", &simulated_generator);
}

}  // namespace lowtide::python
