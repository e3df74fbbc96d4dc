#pragma once

#include <exception>

namespace lowtide::cli {

/// Prints one line `lowtide: ...` on standard error, and with `json` a document
/// {"error", "status"} on standard output. Returns the exit code.
int report_failure(const std::exception_ptr& failure, bool json);

}  // namespace lowtide::cli
