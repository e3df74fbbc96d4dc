#pragma once

#include "base/bytes.h"

namespace lowtide {

/// The resident set of this process, as the kernel counts it: a measurement that is independent of
/// the executor's own count.
Bytes resident_set_bytes();
/// Its highest value so far.
Bytes peak_resident_set_bytes();

}  // namespace lowtide
