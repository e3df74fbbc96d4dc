#pragma once

namespace lowtide::device {

/// Whether plans can run on a GPU here. The first call makes it known as "cuda".
bool has_gpu();

}  // namespace lowtide::device
