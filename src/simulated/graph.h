#pragma once

namespace lowtide::simulated {

/// Makes the framework's device-independent graphs (torch.accelerator.Graph) graphs of this device.
/// Does nothing where the framework has none.
void register_graphs();

}  // namespace lowtide::simulated
