#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include <string_view>

#include "base/error.h"

/// Streams of whatever device, by which values are copied between it and the host.
namespace lowtide::device {

/// The one that does what the calling thread asks of the device.
c10::Stream current_stream(c10::Device device);

/// One that works beside it.
c10::Stream new_stream(c10::Device device);

/// That the copy of a value failed, and why.
Error copy_error(std::string_view value, c10::Device device, const c10::Error& error);

}  // namespace lowtide::device
