// Reads mutated graphs, plans and profiles: see fuzz_program.h.

#include "fuzz/documents.h"
#include "fuzz/fuzz_program.h"
#include "fuzz/mutate.h"

namespace {

std::string text(std::uint64_t seed) {
  const auto& texts = lowtide::testing::valid_texts();
  return lowtide::testing::mutated(texts[seed % texts.size()], seed);
}

}  // namespace

int main(int argc, char** argv) { return lowtide::testing::fuzz({"fuzz_graph", text}, argc, argv); }
