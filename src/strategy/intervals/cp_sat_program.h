#pragma once

namespace lowtide::strategy::intervals {

/// The text of cp_sat.py, compiled in so that every installation of the library has it.
extern const char* const kCpSatProgram;

}  // namespace lowtide::strategy::intervals
