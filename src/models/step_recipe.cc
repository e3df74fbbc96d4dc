#include "models/step_recipe.h"

#include "models/micro_batches.h"
#include "slices/in_slices.h"

namespace lowtide::models {

Graph training_graph(const StepRecipe& recipe) {
  const Model& model = find_model(recipe.model);
  const std::int64_t batch = with_defaults(model, recipe.sizes).batch;
  check_micro_batches(recipe.micro_batches, batch);
  require_number("--slices", recipe.slices);
  slices::check_slices(recipe.slices, batch, recipe.micro_batches);
  const Graph whole =
      training_graph(model, recipe.sizes, recipe.optimizer, recipe.precision, recipe.micro_batches);
  return slices::in_slices(whole, recipe.slices);
}

}  // namespace lowtide::models
