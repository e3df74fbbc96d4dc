#pragma once

#include <c10/core/Stream.h>

#include "base/bytes.h"

namespace lowtide::cuda {

/// cuBLAS and cuBLASLt each take a workspace at their first product on a thread and stream, and
/// keep it: 8 to 32 MiB. Lets them do so now, at the first call for this thread and stream, so that
/// these bytes are no request of a measured or planned op.
void take_lasting_workspaces(c10::Stream stream);

/// Bytes of both, for one thread and stream. 0 where this LibTorch does not tell.
Bytes lasting_workspace_bytes();

}  // namespace lowtide::cuda
