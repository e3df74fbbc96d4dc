#include "train/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "models/micro_batches.h"
#include "train/planned_step.h"
#include "train/trainer.h"

namespace lowtide::train {
namespace {

constexpr std::int64_t kMostMicroBatches = 16;
constexpr std::int64_t kSteps = 3;
/// A plan that costs no more than this times keep-all's keeps every value.
constexpr double kKeepsEverything = 1.0001;

/// To be tried; a model may be impossible with the later ones.
std::vector<std::int64_t> micro_batches_of(const TrainOptions& options, bool may_differ) {
  if (!may_differ) return {options.recipe.micro_batches};
  std::vector<std::int64_t> counts = models::possible_micro_batches(options.recipe.sizes.batch);
  std::erase_if(counts, [](std::int64_t count) { return count > kMostMicroBatches; });
  return counts;
}

}  // namespace

std::string words(const Candidate& candidate) {
  const Recipe& recipe = candidate.options.recipe;
  std::string text{models::precision_name(recipe.precision.compute)};
  if (recipe.micro_batches > 1) text += fmt::format(", {} micro-batches", recipe.micro_batches);
  if (recipe.slices > 1) text += fmt::format(", {} slices", recipe.slices);
  if (!candidate.options.memory.disk.empty()) text += ", disk";
  return text;
}

std::string numerics(const Candidate& candidate) {
  const Recipe& recipe = candidate.options.recipe;
  std::string text;
  if (recipe.precision.compute != DType::f32) {
    text = fmt::format("as torch.autocast in {}", models::precision_name(recipe.precision.compute));
  }
  if (recipe.micro_batches > 1) {
    text += text.empty() ? "" : "; ";
    text += "sums round otherwise, batch norm sees micro-batches";
  }
  if (recipe.slices > 1) {
    text += text.empty() ? "" : "; ";
    text += "sums round otherwise, dropout draws by slice";
  }
  return text.empty() ? "the same bits" : text;
}

TuningGoal parse_tuning_goal(std::string_view text) {
  if (text == "fastest") return TuningGoal::fastest;
  if (text == "fits") return TuningGoal::fits;
  throw InputError(fmt::format("--goal must be fastest or fits, not \"{}\".", text));
}

namespace {

double known_seconds(const Candidate& candidate) {
  return candidate.measured_seconds.value_or(candidate.predicted_seconds.value_or(0));
}

/// In how much it differs from training the whole batch in f32 in memory.
int changes(const Candidate& candidate) {
  const TrainOptions& options = candidate.options;
  return (options.recipe.precision.compute != DType::f32 ? 1 : 0) +
         (options.recipe.micro_batches > 1 ? 1 : 0) + (options.recipe.slices > 1 ? 1 : 0) +
         (options.memory.disk.empty() ? 0 : 1);
}

class Tuner {
 public:
  Tuner(const TuningChoices& choices, const Control::Listener& listener)
      : choices_(choices), listener_(listener) {}

  Tuning run(const TrainOptions& options) {
    try {
      for (DType precision : choices_.precisions) plan_in(precision, options);
      rank();
      run_first();
    } catch (const StoppedError&) {
      if (found_.ranked.empty()) throw;
      found_.stopped = true;
    }
    rank();
    if (found_.ranked.empty()) std::rethrow_exception(refusal_);
    return std::move(found_);
  }

 private:
  void plan_in(DType precision, TrainOptions options) {
    options.recipe.precision.compute = precision;
    for (std::int64_t count : micro_batches_of(options, choices_.micro_batches)) {
      options.recipe.micro_batches = count;
      for (bool disk : {false, true}) {
        if (disk && !choices_.disk) continue;
        TrainOptions candidate = options;
        if (!disk) candidate.memory = without_moves(candidate.memory);
        if (consider(candidate)) return;
      }
    }
  }

  /// Returns whether it keeps every value, in no more slices than there have to be.
  bool consider(const TrainOptions& options) {
    Candidate candidate{options};
    try {
      const auto [step, fitted] = planned_step(candidate.options, listener_);
      const Plan& plan = fitted.plan();
      candidate.predicted_seconds = 1e-6 * plan.cost;
      candidate.overhead = plan.cost / step.keep_all.cost - 1;
      candidate.peak_bytes = plan.layout->arena_bytes + fitted.division.executor_bytes;
    } catch (const planner::DoesNotFit& refusal) {
      candidate.peak_bytes = refusal.smallest_budget_bytes;
      candidate.why_not = "no plan within the budget";
    } catch (const InfeasibleError&) {
      candidate.why_not = "more than this machine has, or than any plan could keep";
    } catch (const InputError&) {  // as one image is too few for batch normalization
      if (!refusal_) refusal_ = std::current_exception();  // that of the largest parts
      return false;
    }
    report(candidate);
    found_.ranked.push_back(candidate);
    const std::int64_t fewest = std::max<std::int64_t>(1, options.recipe.slices);  // 0: chosen
    return candidate.fits() && candidate.overhead <= kKeepsEverything - 1 &&
           candidate.options.recipe.slices == fewest;
  }

  void report(const Candidate& candidate) const {
    if (!listener_) return;
    const std::string what = candidate.fits()
                                 ? fmt::format("{:.3g} ms", 1e3 * *candidate.predicted_seconds)
                                 : candidate.why_not;
    listener_(fmt::format("note: {}: {}", words(candidate), what));
  }

  void rank() {
    std::ranges::stable_sort(found_.ranked, {}, [this](const Candidate& one) {
      const bool changes_count = choices_.goal == TuningGoal::fits;
      return std::tuple(!one.fits(), takes_too_long(one), changes_count ? changes(one) : 0,
                        !one.measured_seconds.has_value(), known_seconds(one),
                        one.peak_bytes.value_or(0));
    });
  }

  bool takes_too_long(const Candidate& candidate) const {
    return choices_.step_seconds && known_seconds(candidate) > *choices_.step_seconds;
  }

  void run_first() {
    int runs = 0;
    for (Candidate& candidate : found_.ranked) {
      if (!candidate.fits() || runs == choices_.runs) return;
      ++runs;
      TrainOptions options = candidate.options;
      options.steps = kSteps;
      const TrainResult result = train(options, {.message = listener_, .step = {}});
      candidate.measured_seconds = result.step_seconds;
      candidate.measured_peak_bytes = result.measured_peak_bytes;
      if (result.stopped) throw StoppedError("stopped while the first was run");
    }
  }

  const TuningChoices& choices_;
  const Control::Listener& listener_;
  Tuning found_;
  std::exception_ptr refusal_;
};

}  // namespace

Tuning tuned(const TrainOptions& options, const TuningChoices& choices,
             const Control::Listener& listener) {
  TrainOptions complete = options;
  complete.recipe = with_defaults(options.recipe);
  return Tuner(choices, listener).run(complete);
}

}  // namespace lowtide::train
