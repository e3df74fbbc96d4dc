#include "train/planned_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bounds/budget_floor.h"
#include "graph/io.h"
#include "models/micro_batches.h"
#include "offload/ways.h"
#include "planner/does_not_fit.h"
#include "planner/resolve.h"

namespace lowtide::train {
namespace {

/// A plan that costs no more than this times keep-all's keeps every value. Where the whole batch
/// has one, it is not divided: results keep their bits.
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

/// A micro-batch may be too small for a model, as one image is for batch normalization.
bool is_possible(const Recipe& recipe) {
  try {
    static_cast<void>(bare_graph(recipe));
    return true;
  } catch (const InputError&) {
    return false;
  }
}

/// A number of parts of a batch that is to be chosen.
struct Parts {
  std::int64_t models::StepRecipe::* count;
  std::string_view one, several;      ///< their names
  std::vector<std::int64_t> numbers;  ///< to choose from, in rising order
};

class Choice {
 public:
  /// Considers all numbers up to `at_least`, and more of them as long as they are better.
  Choice(TrainOptions options, Parts parts, std::int64_t at_least,
         const Control::Listener& listener)
      : options_(std::move(options)),
        parts_(std::move(parts)),
        at_least_(at_least),
        listener_(listener) {}

  /// `options` get the number, or where none has a plan the one that is refused.
  PlannedStep take(TrainOptions& options) {
    for (std::int64_t count : parts_.numbers) {
      options_.recipe.*parts_.count = count;
      if (count > 1 && !is_possible(options_.recipe)) break;
      if (!consider() && count >= at_least_) break;
    }
    options = std::move(options_);
    options.recipe.*parts_.count = best_count_;
    if (!best_) std::rethrow_exception(refusal_);
    write_graph_of(best_->step, options);
    return *std::move(best_);
  }

 private:
  /// Returns whether more parts may be better.
  bool consider() {
    try {
      PlannedStep next = planned_once(options_, listener_);
      const double cost = next.fitted.plan().cost;
      report(fmt::format("{:.3g} ms", 1e-3 * cost));
      if (best_ && cost >= best_->fitted.plan().cost) return false;
      best_ = std::move(next);
      best_count_ = options_.recipe.*parts_.count;
      return best_count_ > 1 || cost > kKeepsAll * best_->step.keep_all.cost;
    } catch (const planner::DoesNotFit& refusal) {
      keep(refusal.smallest_budget_bytes.value_or(kUnknown));
    } catch (const InfeasibleError&) {
      keep(kUnknown);
    }
    report("no plan within the budget");
    return true;
  }

  /// The present refusal, unless an earlier one needs less.
  void keep(Bytes smallest_budget) {
    if (refusal_ && smallest_budget > refused_budget_) return;
    refusal_ = std::current_exception();
    refused_budget_ = smallest_budget;
    if (!best_) best_count_ = options_.recipe.*parts_.count;
  }

  void report(const std::string& what) const {
    if (!listener_) return;
    const std::int64_t count = options_.recipe.*parts_.count;
    listener_(fmt::format("note: {} {}{}: {}", count, count == 1 ? parts_.one : parts_.several,
                          options_.memory.may_move() ? ", with moves" : "", what));
  }

  static constexpr Bytes kUnknown = std::numeric_limits<Bytes>::max();

  TrainOptions options_;
  Parts parts_;
  std::int64_t at_least_;
  const Control::Listener& listener_;
  std::optional<PlannedStep> best_;
  std::int64_t best_count_ = 1;  ///< of `best_`, or without one of `refusal_`
  std::exception_ptr refusal_;
  Bytes refused_budget_ = kUnknown;
};

/// The number that is to be chosen, if one is. Throws InputError for two.
std::optional<Parts> parts_to_choose(const models::StepRecipe& recipe) {
  const bool chooses_slices = recipe.slices == models::kAutomatic;
  if (recipe.micro_batches != models::kAutomatic && !chooses_slices) return std::nullopt;
  if (!chooses_slices) {
    return Parts{&models::StepRecipe::micro_batches, "micro-batch", "micro-batches",
                 models::possible_micro_batches(recipe.sizes.batch)};
  }
  if (recipe.micro_batches == models::kAutomatic) {
    throw InputError("--micro-batches auto and --slices auto: give a number of one of them.");
  }
  std::vector<std::int64_t> numbers;
  for (std::int64_t count = 1; count <= recipe.sizes.batch / recipe.micro_batches; count *= 2) {
    numbers.push_back(count);
  }
  return Parts{&models::StepRecipe::slices, "slice", "slices", std::move(numbers)};
}

/// A share becomes bytes, so that it does not shrink with the parts of the batch.
void fix_budget(TrainOptions& options, const Parts& parts, const Control::Listener& listener) {
  Budget& budget = options.memory.planning.budget;
  if (!std::holds_alternative<Budget::Share>(budget.value)) return;
  TrainOptions whole = options;
  whole.recipe.*parts.count = 1;
  whole.memory = {};
  whole.memory.planning.strategy = strategy::default_strategy().name;  // it need not keep all
  const Step step = prepare_step(whole, Control(0, listener));
  budget.value = planner::resolve(budget, step.graph);
}

/// The number that is chosen where nothing moves; 1 where there is none.
std::int64_t number_without_moves(TrainOptions options, const Parts& parts,
                                  const Control::Listener& listener) {
  options.memory = without_moves(std::move(options.memory));
  options.memory.planning.strategy.clear();
  options.graph_out.clear();
  try {
    static_cast<void>(Choice(options, parts, 1, listener).take(options));
    return options.recipe.*parts.count;
  } catch (const InfeasibleError&) {
    return 1;
  }
}

/// Moves may make more parts slower than fewer while without them they are faster, and faster than
/// with them. So the number that is found without moves is considered with them too.
PlannedStep planned_in_parts(TrainOptions& options, const Control::Listener& listener) {
  std::optional<Parts> parts = parts_to_choose(options.recipe);
  if (!parts) return planned_once(options, listener);
  fix_budget(options, *parts, listener);
  const MemoryOptions& memory = options.memory;
  const bool has_both_ways =
      memory.may_move() && offload::ways_of(memory.planning.strategy) == offload::Ways::both;
  const std::int64_t at_least = has_both_ways ? number_without_moves(options, *parts, listener) : 1;
  return Choice(options, *std::move(parts), at_least, listener).take(options);
}

/// Empty unless the ops of more slices need less than those of the step. What they work in is not
/// known for both.
std::string way_by_slices(const Recipe& recipe) {
  Recipe more = recipe;
  const std::int64_t most = recipe.sizes.batch / recipe.micro_batches;
  more.slices = std::min(2 * recipe.slices, most);
  if (more.slices <= recipe.slices) return "";
  if (bounds::budget_floor(bare_graph(more)) >= bounds::budget_floor(bare_graph(recipe))) return "";
  return fmt::format("Or let ops run on parts of the batch, one after the other: --slices {}{}, or "
                     "--slices auto.",
                     more.slices, more.slices < most ? " or more" : "");
}

}  // namespace

PlannedStep planned_step(TrainOptions& options, const Control::Listener& listener) {
  const bool chooses_slices = options.recipe.slices == models::kAutomatic;
  try {
    return planned_in_parts(options, listener);
  } catch (const planner::DoesNotFit& refusal) {
    const std::string way = chooses_slices ? "" : way_by_slices(options.recipe);
    if (way.empty()) throw;
    throw planner::DoesNotFit(refusal, way);
  }
}

PlannedStep planned_pass(TrainOptions& options, const Control::Listener& listener) {
  return planned(prepare_pass(options, Control(0, listener)), options, listener);
}

}  // namespace lowtide::train
