#pragma once

namespace lowtide::strategy::intervals {

/// The text of cp_sat.py, part of the library so that it is at hand wherever that is installed.
extern const char* const kCpSatProgram;

}  // namespace lowtide::strategy::intervals
