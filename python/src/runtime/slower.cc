#include "base/error.h"
#include "device/disk_place.h"
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

Shared disk_of(const device::ComputeDevice& device, std::filesystem::path folder) {
  if (device.is_host_memory()) return std::make_shared<slower::Disk>(std::move(folder));
  return std::make_shared<device::DiskPlace>(device, std::move(folder));
}

auto known_speed(const slower::Place& place) {
  const std::optional<slower::LaneSpeed> speed = train::known_speed(place);
  return speed ? std::optional(tuple_of(*speed)) : std::nullopt;
}

auto measured(const slower::Place& place, bool keep) {
  const py::gil_scoped_release unlocked;
  return tuple_of(keep ? train::measure_and_keep(place) : place.measured());
}

/// A store for tensors. A copy keeps no tensor: the caller does, until it has waited.
class TensorStore {
 public:
  TensorStore(Shared place, Bytes bytes) : place_(std::move(place)), store_(place_->open(bytes)) {}

  std::int64_t write(Bytes offset, const at::Tensor& from, const std::string& name) {
    return store_->write(offset, bytes_of(from), name).number;
  }
  std::int64_t read(Bytes offset, const at::Tensor& into, const std::string& name) {
    return store_->read(offset, bytes_of(into), name).number;
  }
  void wait(std::int64_t number) {
    const py::gil_scoped_release unlocked;
    store_->wait({number});
  }
  py::tuple moved() const {
    slower::Counters moved;
    {
      const py::gil_scoped_release unlocked;
      moved = store_->counters();
    }
    return py::make_tuple(moved.bytes_out, moved.bytes_in, moved.copy_seconds, moved.wait_seconds);
  }

 private:
  static std::span<std::byte> bytes_of(const at::Tensor& tensor) {
    if (!tensor.is_contiguous()) throw InputError("a tensor that moves must be contiguous");
    return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
  }

  const Shared place_;
  const std::unique_ptr<slower::Store> store_;
};

at::Tensor tensor_of(const py::handle& tensor) {
  if (!THPVariable_Check(tensor.ptr())) throw py::type_error("a tensor is wanted");
  return THPVariable_Unpack(tensor.ptr());
}

void bind_store(py::module_& module) {
  py::class_<TensorStore>(module, "SlowerStore",
                          "Slower memory for tensors: src/slower/store.h says what it does.")
      .def(
          "write",
          [](TensorStore& store, Bytes offset, const py::object& from, const std::string& name) {
            return store.write(offset, tensor_of(from), name);
          },
          py::arg("offset"), py::arg("tensor"), py::arg("name"))
      .def(
          "read",
          [](TensorStore& store, Bytes offset, const py::object& into, const std::string& name) {
            return store.read(offset, tensor_of(into), name);
          },
          py::arg("offset"), py::arg("tensor"), py::arg("name"))
      .def("wait", &TensorStore::wait, py::arg("copy"))
      .def_property_readonly("moved", &TensorStore::moved);
}

}  // namespace

void bind_slower(py::module_& module) {
  py::class_<slower::Place, Shared>(module, "SlowerMemory", "Where values move that do not fit.")
      .def_static(
          "disk",
          [](std::filesystem::path folder, const std::string& device) -> Shared {
            return disk_of(device_named(device), std::move(folder));
          },
          py::arg("folder"), py::arg("device") = kCpu)
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
           "As it is now. `keep`: whether later runs may use it.")
      .def(
          "open",
          [](const Shared& place, Bytes bytes) {
            const py::gil_scoped_release unlocked;
            return std::make_unique<TensorStore>(place, bytes);
          },
          py::arg("bytes"));
  bind_store(module);
}

}  // namespace lowtide::python
