#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/options.h"

namespace lowtide::train {

/// A way to train a model, as options of `train`, and what its plan says.
struct Candidate {
  TrainOptions options;
  std::optional<double> predicted_seconds = {};  ///< of a step; none where no plan fits
  double overhead = 0;                           ///< cost of the plan / cost of keep-all - 1
  /// Planned; of one that does not fit, the smallest budget that does, if it is known.
  std::optional<Bytes> peak_bytes = {};
  std::string why_not = {};  ///< of one that does not fit
  std::optional<double> measured_seconds = {};
  std::optional<Bytes> measured_peak_bytes = {};

  bool fits() const { return predicted_seconds.has_value(); }
};

/// "bf16, 4 micro-batches, disk"
std::string words(const Candidate& candidate);

/// How its results differ from those of the whole batch in f32, in words.
std::string numerics(const Candidate& candidate);

/// Which of the candidates that fit is the best.
enum class TuningGoal : std::uint8_t {
  fastest,  ///< the one with the shortest step
  fits      ///< the one that changes the training least
};

/// Reads "fastest" or "fits". Throws InputError for other texts.
TuningGoal parse_tuning_goal(std::string_view text);

struct Tuning {
  std::vector<Candidate> ranked;  ///< the best first; those that do not fit last
  bool stopped = false;           ///< before all were planned and the first was run
};

/// What may differ between candidates, and which is the best.
struct TuningChoices {
  TuningGoal goal = TuningGoal::fastest;
  std::optional<double> step_seconds = {};  ///< those that take longer come behind the others
  std::vector<DType> precisions = {DType::f32};
  bool micro_batches = true;  ///< 1, 2, 4, ... up to 16, as far as the batch divides
  bool disk = false;          ///< with the disk of the options, and without it
  int runs = 2;               ///< how many of the first are run
};

/// Plans `options` by every combination of the choices within their budget, which is in bytes, and
/// runs the first few for three steps; those are then ranked by what they took. Of a precision in
/// which one keeps every value, in no more slices than there have to be, no other is planned, as
/// none is faster or changes less. Throws InputError where the model has none of the combinations,
/// StoppedError where it is stopped before the first is planned.
Tuning tuned(const TrainOptions& options, const TuningChoices& choices,
             const Control::Listener& listener);

}  // namespace lowtide::train
