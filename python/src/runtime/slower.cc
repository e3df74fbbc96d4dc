#include "device/host_place.h"
#include "slower/disk.h"
#include "tensors.h"
#include "train/known_speeds.h"

namespace lowtide::python {
namespace {

using Shared = std::shared_ptr<slower::Place>;

/// As _core takes it: seconds and bytes per second of each direction, and whether they share.
auto tuple_of(const slower::LaneSpeed& speed) {
  const auto pair = [](const slower::Speed& s) {
    return std::pair(s.latency_seconds, s.bytes_per_second);
  };
  return std::tuple(pair(speed.out), pair(speed.in), speed.shared);
}

auto known_speed(const slower::Place& place) {
  const std::optional<slower::LaneSpeed> speed = train::known_speed(place);
  return speed ? std::optional(tuple_of(*speed)) : std::nullopt;
}

auto measured(const slower::Place& place, bool keep) {
  const py::gil_scoped_release unlocked;
  return tuple_of(keep ? train::measure_and_keep(place) : place.measured());
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
      .def("known_speed", &known_speed, "As measured before; None where it was not.")
      .def("measured", &measured, py::kw_only(), py::arg("keep"),
           "As it is now. `keep`: whether later runs may use it.");
}

}  // namespace lowtide::python
