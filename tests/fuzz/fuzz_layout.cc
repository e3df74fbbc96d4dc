// Reads mutated tables of buffers and packs what bytes stand for: see fuzz_program.h.

#include "fuzz/fuzz_program.h"
#include "fuzz/layout_texts.h"

int main(int argc, char** argv) {
  return lowtide::testing::fuzz({"fuzz_layout", lowtide::testing::layout_text}, argc, argv);
}
