// Plans random graphs by every strategy and way, and checks the answers: see fuzz_program.h.

#include "fuzz/fuzz_program.h"
#include "fuzz/plan_faults.h"
#include "fuzz/plans_entry.h"

int main(int argc, char** argv) {
  using namespace lowtide::testing;
  return fuzz({"fuzz_plans", plan_case, format_tally_of_all}, argc, argv);
}
