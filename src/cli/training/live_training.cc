#include "cli/training/live_training.h"

#include <utility>

namespace lowtide::cli {

LiveTraining::LiveTraining(std::uint16_t port, std::string name)
    : name_(std::move(name)), server_(port, [this] { return training_.document(); }) {
  training_.note(live::PlanFigures{.name = name_});
}

train::TrainListener LiveTraining::with_page(train::TrainListener listener) {
  listener.planned = [this, told = std::move(listener.planned)](const train::TrainResult& result) {
    training_.note(live::PlanFigures{.name = name_,
                                     .budget_bytes = result.budget_bytes,
                                     .peak_bytes = result.planned_peak_bytes,
                                     .step_seconds = result.predicted_step_seconds,
                                     .overhead = result.overhead});
    if (told) told(result);
  };
  listener.step = [this, told = std::move(listener.step)](const train::StepProgress& progress) {
    training_.note(live::StepFigures{.done = progress.step,
                                     .whole = progress.steps,
                                     .loss = progress.loss,
                                     .peak_bytes = progress.step_peak_bytes,
                                     .moved_out_bytes = progress.bytes_out,
                                     .moved_back_bytes = progress.bytes_in});
    if (told) told(progress);
  };
  return listener;
}

}  // namespace lowtide::cli
