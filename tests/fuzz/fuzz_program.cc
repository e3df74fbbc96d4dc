#include "fuzz/fuzz_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>

#include "base/control.h"
#include "base/file.h"
#include "fuzz/libfuzzer_entry.h"

namespace lowtide::testing {
namespace {

constexpr unsigned kPatience = 60;       // seconds; sanitizers are slow
constexpr double kSecondsOfReport = 60;  // between reports

extern "C" void stop(int) { Control::request_stop(); }

void read_text(const std::string& text) {
  alarm(kPatience);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  alarm(0);
}

void report(const FuzzProgram& program, std::uint64_t read, double seconds) {
  const std::string tally = program.tally == nullptr ? "" : ": " + program.tally();
  fmt::print("{} texts, {:.1f}/s, no fault{}\n", read, static_cast<double>(read) / seconds, tally);
  std::fflush(stdout);
}

void read_many(const FuzzProgram& program, double seconds, std::uint64_t seed) {
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
  const std::string kept = std::string(program.name) + ".txt";
  const Control time(seconds);
  std::uint64_t read = 0;
  double reported = 0;
  for (; !time.should_stop(); ++read) {
    const std::string text = program.text((seed << 40) + read);
    std::ofstream(kept) << text;
    read_text(text);
    if (time.elapsed_seconds() < reported + kSecondsOfReport) continue;
    reported = time.elapsed_seconds();
    report(program, read + 1, reported);
  }
  std::filesystem::remove(kept);
  report(program, read, time.elapsed_seconds());
}

}  // namespace

int fuzz(const FuzzProgram& program, int argc, char** argv) {
  try {
    if (argc == 2) {
      read_text(read_file(argv[1]));
    } else if (argc == 3) {
      read_many(program, std::atof(argv[1]), std::strtoull(argv[2], nullptr, 10));
    } else {
      std::fprintf(stderr, "usage: %s SECONDS SEED, or %s FILE\n", program.name, program.name);
      return 2;
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program.name, error.what());
    return 1;
  }
}

}  // namespace lowtide::testing
