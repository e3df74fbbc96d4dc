#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "base/bytes.h"
#include "live/curve.h"

namespace lowtide::live {

/// What is known of a training before its first step.
struct PlanFigures {
  std::string name;        ///< of the model
  Bytes budget_bytes = 0;  ///< 0: no limit
  Bytes peak_bytes = 0;    ///< of a step
  double step_seconds = 0;
  double overhead = 0;  ///< of time, above keep-all: 0.1 for 10%
};

/// What is known after a step.
struct StepFigures {
  std::int64_t done = 0;   ///< steps of the whole training
  std::int64_t whole = 0;  ///< that it is to have
  double loss = 0;
  Bytes peak_bytes = 0;                             ///< of this step
  Bytes moved_out_bytes = 0, moved_back_bytes = 0;  ///< in this step, to slower memory and back
};

/// A training that runs: written by its thread, read by that of the page.
class RunningTraining {
 public:
  void note(const PlanFigures& planned);
  void note(const StepFigures& step);
  /// The text of a JSON document, as the page reads it.
  std::string document() const;

 private:
  using Clock = std::chrono::steady_clock;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  nlohmann::json figures() const;
  nlohmann::json steps() const;

  const Clock::time_point began_ = Clock::now();
  mutable std::mutex mutex_;  // of all that follows
  PlanFigures planned_;
  StepFigures last_;
  std::deque<double> recent_;  ///< when the last steps were over
  Curve planned_peak_{Curve::Merge::highest}, peak_{Curve::Merge::highest};
  Curve loss_{Curve::Merge::mean};
};

}  // namespace lowtide::live
