#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/executor.h"
#include "train/checkpoint.h"
#include "train/data.h"
#include "train/options.h"
#include "train/prepare.h"
#include "train/slower_places.h"

namespace lowtide::train {

/// A training run in progress, or forward passes: an executor, its data, and the steps done.
class Run {
 public:
  /// Allocates the memory and sets the state from the seed, or from the checkpoint that
  /// `options.resume` or `options.weights` names. `step` and `fitted` must outlive the Run.
  Run(const Step& step, const Fitted& fitted, const TrainOptions& options);

  /// Fills the batch and runs one step.
  runtime::StepReport advance();
  /// The loss of the last step.
  double loss() const { return loss_; }
  /// By which the loss is multiplied now; nothing where it is not.
  std::optional<double> loss_scale() const;
  std::int64_t steps_done() const { return done_; }
  std::int64_t items_per_step() const { return items_; }
  /// The executor's memory apart from the plan's arena: generator states and the reserve.
  Bytes executor_bytes() const;
  void save(const std::filesystem::path& path) const;
  runtime::Executor& executor() { return executor_; }

 private:
  std::vector<NamedTensor> state() const;
  at::Tensor only_resident(Role role);

  const Graph& graph_;
  const Fitted& fitted_;
  const TrainOptions& options_;
  const SlowerStores slower_;
  mutable runtime::Executor executor_;
  at::Tensor input_, target_;
  std::unique_ptr<Batches> batches_;
  TensorId loss_id_;
  std::int64_t items_;
  std::int64_t done_ = 0;
  double loss_ = 0;
};

}  // namespace lowtide::train
