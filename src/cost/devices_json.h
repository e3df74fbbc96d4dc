#pragma once

namespace lowtide::cost {

/// The file devices.json, which the build compiles in.
extern const char* const kDevicesJson;

}  // namespace lowtide::cost
