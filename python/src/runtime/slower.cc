#include "slower/disk.h"

#include "device/host_place.h"
#include "tensors.h"

namespace lowtide::python {
namespace {

using Shared = std::shared_ptr<slower::Place>;

/// As _core takes it: seconds and bytes per second of each direction, and whether they share.
auto measured(const slower::Place& place) {
  slower::LaneSpeed speed;
  {
    const py::gil_scoped_release unlocked;
    speed = place.measured();
  }
  const auto pair = [](const slower::Speed& s) {
    return std::pair(s.latency_seconds, s.bytes_per_second);
  };
  return std::tuple(pair(speed.out), pair(speed.in), speed.shared);
}

}  // namespace

void bind_slower(py::module_& module) {
  py::class_<slower::Place, Shared>(module, "SlowerMemory", "Where values move that do not fit.")
      .def_static(
          "disk",
          [](std::filesystem::path folder) -> Shared {
            return std::make_shared<slower::Disk>(std::move(folder));
          },
          py::arg("folder"))
      .def_static(
          "host",
          [](const std::string& device) -> Shared {
            return std::make_shared<device::HostPlace>(device_named(device));
          },
          py::arg("device"))
      .def_property_readonly("name", &slower::Place::name)
      .def_property_readonly("buffer_bytes", &slower::Place::buffer_bytes)
      .def("measured", &measured);
}

}  // namespace lowtide::python
