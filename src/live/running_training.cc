#include "live/running_training.h"

namespace lowtide::live {
namespace {

/// The rate is that of so many last steps.
constexpr std::size_t kRecent = 50;

}  // namespace

void RunningTraining::note(const PlanFigures& planned) {
  const std::lock_guard lock(mutex_);
  planned_ = planned;
}

void RunningTraining::note(const StepFigures& step) {
  const double now = seconds();
  const std::lock_guard lock(mutex_);
  last_ = step;
  recent_.push_back(now);
  if (recent_.size() > kRecent) recent_.pop_front();
  planned_peak_.add(now, static_cast<double>(planned_.peak_bytes));
  peak_.add(now, static_cast<double>(step.peak_bytes));
  loss_.add(now, step.loss);
}

nlohmann::json RunningTraining::figures() const {
  nlohmann::json figures{{"planned_bytes", planned_.peak_bytes},
                         {"predicted_seconds", planned_.step_seconds},
                         {"predicted_overhead", planned_.overhead}};
  if (planned_.budget_bytes > 0) figures["budget_bytes"] = planned_.budget_bytes;
  if (last_.done == 0) return figures;
  figures["peak_bytes"] = last_.peak_bytes;
  if (last_.moved_out_bytes + last_.moved_back_bytes > 0) {
    figures["moved_out_bytes"] = last_.moved_out_bytes;
    figures["moved_back_bytes"] = last_.moved_back_bytes;
  }
  return figures;
}

nlohmann::json RunningTraining::steps() const {
  nlohmann::json rate;  // null: not known yet
  if (recent_.size() > 1 && recent_.back() > recent_.front()) {
    rate = static_cast<double>(recent_.size() - 1) / (recent_.back() - recent_.front());
  }
  return {{"count", last_.done}, {"whole", last_.whole}, {"per_second", rate}};
}

std::string RunningTraining::document() const {
  const std::lock_guard lock(mutex_);
  return nlohmann::json{
      {"name", planned_.name},
      {"seconds", seconds()},
      {"figures", figures()},
      {"steps", steps()},
      {"memory", {{"planned_bytes", planned_peak_.document()}, {"peak_bytes", peak_.document()}}},
      {"values", {{"loss", loss_.document()}}}}
      .dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

}  // namespace lowtide::live
