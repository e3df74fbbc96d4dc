#include "device/streams.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

namespace lowtide::device {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

c10::Stream new_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
}

Error copy_error(std::string_view value, c10::Device device, const c10::Error& error) {
  return Error(fmt::format("cannot copy the value \"{}\" between {} and the host: {}", value,
                           device.str(), error.what_without_backtrace()));
}

}  // namespace lowtide::device
