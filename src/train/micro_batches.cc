#include "train/micro_batches.h"

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "graph/io.h"
#include "models/micro_batches.h"
#include "planner/resolve.h"

namespace lowtide::train {
namespace {

/// More micro-batches gain nothing on a plan that costs no more than this times keep-all's.
constexpr double kKeepsAll = 1.0001;

void write_graph_of(const Step& step, const TrainOptions& options) {
  if (!options.graph_out.empty()) write_graph(step.graph, options.graph_out);
}

PlannedStep planned(Step step, const TrainOptions& options, const Control::Listener& listener) {
  write_graph_of(step, options);
  Fitted fitted = fit(step, options.memory, listener);
  return {std::move(step), std::move(fitted)};
}

PlannedStep planned_once(const TrainOptions& options, const Control::Listener& listener) {
  return planned(prepare_step(options, Control(0, listener)), options, listener);
}

class Choice {
 public:
  Choice(TrainOptions options, const Control::Listener& listener)
      : options_(std::move(options)), listener_(listener) {}

  /// Returns whether more micro-batches may be better.
  bool consider(std::int64_t count) {
    options_.recipe.micro_batches = count;
    try {
      PlannedStep next = planned_once(options_, listener_);
      const double cost = next.fitted.plan().cost;
      report(fmt::format("{:.3g} ms", 1e-3 * cost));
      if (best_ && cost >= best_->fitted.plan().cost) return false;
      best_ = std::move(next);
      best_count_ = count;
      return cost > kKeepsAll * best_->step.keep_all.cost;
    } catch (const InfeasibleError&) {
      report("no plan within the budget");
      refusal_ = std::current_exception();
      return true;
    }
  }

  PlannedStep take(TrainOptions& options) {
    if (!best_) std::rethrow_exception(refusal_);
    options = std::move(options_);
    options.recipe.micro_batches = best_count_;
    write_graph_of(best_->step, options);
    return *std::move(best_);
  }

 private:
  void report(const std::string& what) const {
    if (!listener_) return;
    const std::int64_t count = options_.recipe.micro_batches;
    listener_(fmt::format("note: {} micro-batch{}: {}", count, count == 1 ? "" : "es", what));
  }

  TrainOptions options_;
  const Control::Listener& listener_;
  std::optional<PlannedStep> best_;
  std::int64_t best_count_ = 1;
  std::exception_ptr refusal_;  ///< of the most micro-batches
};

/// A share becomes bytes, so that it does not shrink with the micro-batches.
void fix_budget(TrainOptions& options, const Control::Listener& listener) {
  Budget& budget = options.memory.planning.budget;
  if (!std::holds_alternative<Budget::Share>(budget.value)) return;
  TrainOptions whole = options;
  whole.recipe.micro_batches = 1;
  whole.memory = {};
  whole.memory.planning.strategy = strategy::default_strategy().name;  // it need not keep all
  const Step step = prepare_step(whole, Control(0, listener));
  budget.value = planner::resolve(budget, step.graph);
}

/// A micro-batch may be too small for a model, as one image is for batch normalization.
bool is_possible(TrainOptions options, std::int64_t count) {
  options.recipe.micro_batches = count;
  try {
    static_cast<void>(bare_graph(options.recipe));
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

PlannedStep planned_step(TrainOptions& options, const Control::Listener& listener) {
  if (options.recipe.micro_batches != models::kAutomatic) return planned_once(options, listener);
  fix_budget(options, listener);
  Choice choice(options, listener);
  for (std::int64_t count : models::possible_micro_batches(options.recipe.sizes.batch)) {
    if (count > 1 && !is_possible(options, count)) break;
    if (!choice.consider(count)) break;
  }
  return choice.take(options);
}

PlannedStep planned_pass(TrainOptions& options, const Control::Listener& listener) {
  return planned(prepare_pass(options, Control(0, listener)), options, listener);
}

}  // namespace lowtide::train
