// fuzz_graph SECONDS SEED: reads mutated files for a while. The text that is being read lies in
// ./fuzz_graph.txt, and stays there when the program dies of it, which also happens when a text
// takes longer than kPatience.
// fuzz_graph FILE: reads one text.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/control.h"
#include "base/file.h"
#include "fuzz/documents.h"
#include "fuzz/libfuzzer_entry.h"
#include "fuzz/mutate.h"

namespace lowtide {
namespace {

constexpr unsigned kPatience = 60;  // seconds; sanitizers are slow
constexpr const char* kText = "fuzz_graph.txt";

void read_text(const std::string& text) {
  alarm(kPatience);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  alarm(0);
}

void read_mutated(double seconds, std::uint64_t seed) {
  const auto& texts = testing::valid_texts();
  const Control time(seconds);
  std::uint64_t read = 0;
  for (; !time.should_stop(); ++read) {
    const std::uint64_t at = (seed << 40) + read;
    const std::string text = testing::mutated(texts[read % texts.size()], at);
    std::ofstream(kText) << text;
    read_text(text);
  }
  std::filesystem::remove(kText);
  std::printf("%llu texts, no fault\n", static_cast<unsigned long long>(read));
}

}  // namespace
}  // namespace lowtide

int main(int argc, char** argv) {
  try {
    if (argc == 2) {
      lowtide::read_text(lowtide::read_file(argv[1]));
    } else if (argc == 3) {
      lowtide::read_mutated(std::atof(argv[1]), std::strtoull(argv[2], nullptr, 10));
    } else {
      std::fprintf(stderr, "usage: fuzz_graph SECONDS SEED, or fuzz_graph FILE\n");
      return 2;
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz_graph: %s\n", error.what());
    return 1;
  }
}
