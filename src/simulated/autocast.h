#pragma once

namespace lowtide::simulated {

/// Registers for the device the ops that autocast casts on the CPU, with the same types.
void register_autocast();

}  // namespace lowtide::simulated
