#include "cli/training/step_lines.h"

#include <fmt/format.h>

namespace lowtide::cli {
namespace {

std::string line(const train::StepProgress& p) {
  return fmt::format("step {}/{}  loss {:.4f}  {:.1f} {}/s  memory peak {}, process {}", p.step,
                     p.steps, p.loss, p.items_per_second, p.items,
                     format_bytes(p.memory_peak_bytes), format_bytes(p.memory_now_bytes));
}

}  // namespace

train::TrainListener step_lines(Progress& progress) {
  return {.message = progress.messages(), .step = [&progress](const train::StepProgress& p) {
            progress.show(line(p), p.step == p.steps);
          }};
}

}  // namespace lowtide::cli
