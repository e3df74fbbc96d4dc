#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fuzz/layout_faults.h"
#include "fuzz/libfuzzer_entry.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto reading = lowtide::testing::read_as_layout(text);
  if (reading.fault.empty()) return 0;
  std::fprintf(stderr, "fault: %s\n", reading.fault.c_str());
  std::abort();
}
