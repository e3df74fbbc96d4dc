#include "train/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/control.h"
#include "base/error.h"
#include "base/process_memory.h"

namespace lowtide::train {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Median without the first step, in which the framework fills its caches.
double typical(std::vector<double> seconds) {
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  return median(std::move(seconds));
}

}  // namespace

void Loop::drive(Run& run, Recorder* recorder) {
  result_.first_step = run.steps_done();
  std::int64_t saved = -1;
  while (run.steps_done() < options_.steps && !Control::stop_requested()) {
    step(run, recorder);
    const bool due = options_.save_every > 0 && run.steps_done() % options_.save_every == 0;
    if (due && save(run)) saved = run.steps_done();
  }
  if (saved != run.steps_done()) save(run);
  finish(run);
}

void Loop::finish(const Run& run) {
  result_.stopped = run.steps_done() < options_.steps;
  result_.seconds_of_steps = seconds_;
  result_.step_seconds = typical(seconds_);
  if (result_.step_seconds > 0) {
    result_.items_per_second = static_cast<double>(run.items_per_step()) / result_.step_seconds;
  }
}

void Loop::step(Run& run, Recorder* recorder) {
  if (recorder && run.steps_done() + 1 == options_.steps) recorder->keep_next_gradients();
  const std::optional<double> scale = run.loss_scale();
  last_ = run.advance();
  if (scale) note_scale(*scale, *run.loss_scale());
  if (recorder) recorder->after_step(run.steps_done());
  warn(run);
  note(run);
  if (listener_.step) listener_.step(progress(run));
}

/// The scale falls in steps that are skipped, and in no others.
void Loop::note_scale(double before, double after) {
  if (after < before) ++result_.skipped_steps;
  result_.loss_scale = after;
}

void Loop::warn(const Run& run) {
  if (!std::isfinite(run.loss()) && !warned_) {
    listener_.message(fmt::format(
        "note: the loss of step {} is not finite; a smaller --lr may help", run.steps_done()));
    warned_ = true;
  }
  for (const std::string& overrun : last_.overruns) {
    const bool known = std::count(result_.overruns.begin(), result_.overruns.end(), overrun) > 0;
    if (known) continue;
    listener_.message("note: " + overrun);
    result_.overruns.push_back(overrun);
  }
}

void Loop::note(const Run& run) {
  seconds_.push_back(last_.seconds);
  result_.losses.push_back(run.loss());
  result_.measured_peak_bytes = std::max(result_.measured_peak_bytes, last_.measured_peak_bytes);
  result_.outside_bytes = std::max(result_.outside_bytes, last_.outside_bytes);
  result_.allocations = last_.allocations;
  result_.bytes_out = last_.moved.bytes_out;
  result_.bytes_in = last_.moved.bytes_in;
  result_.wait_seconds = last_.moved.wait_seconds;
}

StepProgress Loop::progress(const Run& run) const {
  return {.step = run.steps_done(),
          .steps = options_.steps,
          .loss = run.loss(),
          .items_per_second = static_cast<double>(run.items_per_step()) / last_.seconds,
          .items = result_.items,
          .memory_now_bytes = resident_set_bytes(),
          .memory_peak_bytes = result_.measured_peak_bytes,
          .step_peak_bytes = last_.measured_peak_bytes,
          .bytes_out = last_.moved.bytes_out,
          .bytes_in = last_.moved.bytes_in};
}

/// A failed write of a checkpoint must not stop the run: it continues with a warning.
bool Loop::save(const Run& run) {
  if (options_.save.empty()) return false;
  try {
    run.save(options_.save);
    result_.save_error.clear();
    return true;
  } catch (const Error& e) {
    result_.save_error = e.what();
    listener_.message(fmt::format("warning: step {} is not saved: {}", run.steps_done(), e.what()));
    return false;
  }
}

}  // namespace lowtide::train
