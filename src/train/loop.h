#pragma once

#include <vector>

#include "train/record.h"
#include "train/run.h"
#include "train/trainer.h"

namespace lowtide::train {

/// Takes a Run to its last step, or to a stop request: saves when due, reports each step, and fills
/// the measured part of a TrainResult.
class Loop {
 public:
  /// All three must outlive the Loop.
  Loop(const TrainOptions& options, const TrainListener& listener, TrainResult& result)
      : options_(options), listener_(listener), result_(result) {}

  /// `recorder` may be null.
  void drive(Run& run, Recorder* recorder);
  /// The report of the last step.
  const runtime::StepReport& last() const { return last_; }

 private:
  void step(Run& run, Recorder* recorder);
  void note(const Run& run);
  void note_scale(double before, double after);
  void warn(const Run& run);
  void finish(const Run& run);
  bool save(const Run& run);
  StepProgress progress(const Run& run) const;

  const TrainOptions& options_;
  const TrainListener& listener_;
  TrainResult& result_;
  runtime::StepReport last_;
  std::vector<double> seconds_;
  bool warned_ = false;
};

}  // namespace lowtide::train
