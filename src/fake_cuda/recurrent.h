#pragma once

namespace lowtide::fake_cuda {

/// From now on recurrent layers on the fake device run by their cells. On a GPU they are one op of
/// cuDNN, whose memory for the backward pass nobody but cuDNN knows.
void install_recurrent();

}  // namespace lowtide::fake_cuda
