#pragma once

#include <cstdint>
#include <string>

namespace lowtide::testing {

/// A program that makes texts and reads them by LLVMFuzzerTestOneInput:
///
///     NAME SECONDS SEED   reads texts for a while, or until Ctrl-C, and says how many from time to
///                         time. The current text is in ./NAME.txt, and stays there when the
///                         program dies of it, which also happens when reading takes longer than a
///                         minute.
///     NAME FILE           reads one text.
struct FuzzProgram {
  const char* name;
  std::string (*text)(std::uint64_t seed);
  std::string (*tally)() = nullptr;  ///< what was done with them; null: nothing to say
};

/// Runs main() of the program; returns its exit code.
int fuzz(const FuzzProgram& program, int argc, char** argv);

}  // namespace lowtide::testing
