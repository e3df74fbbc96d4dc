#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/control.h"
#include "largest/size_search.h"
#include "largest/steps.h"
#include "profile/profiler.h"
#include "train/prepare.h"

namespace lowtide::train {

/// The training step of a model of the zoo at any size, measured on this machine where asked for:
/// times and workspaces of other sizes are interpolated from those, or where the step of another
/// size has other ops, measured too.
class SizedSteps : public largest::Steps {
 public:
  /// `options`: what is trained and where its measurements are. `field`: the size of the model that
  /// varies. `runs`: whether steps are run. `sizes` bounds the sizes that are measured.
  SizedSteps(TrainOptions options, std::int64_t models::ModelOptions::* field,
             const largest::Sizes& sizes, bool runs, Control::Listener listener);

  Graph bare(std::int64_t size) override;
  /// Measures two sizes below, a half and a quarter of it, and of the size itself the ops that
  /// decide the time of its step (profile::heavy_ops): kernels change with the size, which two
  /// sizes do not show.
  void expect(std::int64_t largest) override;
  Graph estimated(std::int64_t size) override;
  bool are_measured() const override { return true; }
  Graph measured(std::int64_t size) override;
  Bytes reserved_bytes(const Graph& graph) override;
  std::optional<largest::StepRun> run(std::int64_t size, const Graph& graph,
                                      const planner::Planned& planned) override;

 private:
  TrainOptions of_size(std::int64_t size) const;
  profile::Measure measure() const;
  /// The measured steps that have the ops of this one.
  std::vector<Graph> alike(const Graph& graph) const;
  void measure_heavy_ops(std::int64_t size);

  const TrainOptions options_;
  std::int64_t models::ModelOptions::* const field_;
  const largest::Sizes sizes_;
  const bool runs_;
  const Control::Listener listener_;
  std::map<std::int64_t, Graph> measured_;  ///< by size
  std::optional<Graph> partly_measured_;    ///< of the largest size
};

}  // namespace lowtide::train
