// Reads mutated tables of buffers, and packs buffers encoded in bytes: see fuzz_program.h.

#include "fuzz/fuzz_program.h"
#include "fuzz/layout_texts.h"

int main(int argc, char** argv) {
  return lowtide::testing::fuzz({"fuzz_layout", lowtide::testing::layout_text}, argc, argv);
}
