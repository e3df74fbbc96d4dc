#include "fuzz/fault.h"
#include "fuzz/faults.h"
#include "fuzz/libfuzzer_entry.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  lowtide::testing::abort_at(lowtide::testing::read_as_anything(text).fault);
  return 0;
}
