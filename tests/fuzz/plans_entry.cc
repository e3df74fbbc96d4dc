#include "fuzz/plans_entry.h"

#include "fuzz/fault.h"
#include "fuzz/libfuzzer_entry.h"
#include "fuzz/plan_faults.h"

namespace lowtide::testing {
namespace {
PlanTally tally_of_all;
}  // namespace

std::string format_tally_of_all() { return format_tally(tally_of_all); }

}  // namespace lowtide::testing

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const lowtide::testing::PlanReading reading = lowtide::testing::read_as_plan_case(text);
  lowtide::testing::abort_at(reading.fault);
  lowtide::testing::tally_of_all += reading.tally;
  return 0;
}
