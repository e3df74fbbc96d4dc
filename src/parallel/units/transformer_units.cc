#include "parallel/units/transformer_units.h"

#include <fmt/format.h>

#include "base/error.h"

namespace lowtide::parallel {
namespace {

constexpr Bytes kFullBytes = 4;  // of a number in f32
constexpr std::int64_t kMostLayers = 1000;

StateBytes state_of(std::int64_t parameters, const TransformerRecipe& recipe) {
  const estimate::TransformerTraining& training = recipe.training;
  const bool lower = training.compute != DType::f32;
  const Bytes element = element_bytes(training.compute);
  const Bytes gradient = recipe.wide_gradients ? kFullBytes : element;
  const Bytes optimizer = kFullBytes * (training.states + (lower ? 1 : 0));
  return {.parameters = parameters * element,
          .gradients = parameters * gradient,
          .optimizer = parameters * optimizer,
          .others = 0};
}

/// Of the forward and backward pass of one sequence: the backward pass has two products for each
/// of the forward pass.
double block_flops(const estimate::TransformerSizes& sizes) {
  const auto s = static_cast<double>(sizes.sequence), h = static_cast<double>(sizes.width);
  return 3 * (24 * s * h * h + 4 * s * s * h);
}

double head_flops(const estimate::TransformerSizes& sizes) {
  return 3 * 2 * static_cast<double>(sizes.sequence) * static_cast<double>(sizes.width) *
         static_cast<double>(sizes.vocabulary);
}

Unit unit_of(const std::string& name, const Graph& graph, const StateBytes& state,
             const StateBytes& tied, double flops, Bytes result_bytes) {
  return {.name = name,
          .state = state,
          .tied = tied,
          .flops = flops,
          .result_bytes = result_bytes,
          .plans = unit_plans(graph)};
}

std::vector<Unit> units_of(const TransformerRecipe& recipe, const UnitRequest& request) {
  estimate::TransformerSizes sizes = recipe.sizes;
  sizes.batch = request.micro_batch;
  estimate::from_sizes(sizes, recipe.training);  // refuses more bytes than can be counted
  const TransformerUnit unit{sizes, recipe.training, request.split, request.cluster,
                             request.device};
  const int ranks = request.split.ranks;
  const double share = static_cast<double>(request.micro_batch) / ranks;
  const Bytes stream = sizes.batch * sizes.sequence * sizes.width *
                       element_bytes(recipe.training.compute) /
                       (request.split.sequence ? ranks : 1);
  const StateBytes table = state_of(table_parameters(sizes, ranks), recipe);
  StateBytes embedding = state_of(position_parameters(sizes), recipe);
  embedding += table;
  StateBytes head = state_of(last_norm_parameters(sizes), recipe);
  head += table;
  return {unit_of("embedding", embedding_graph(unit), embedding, table, 0, stream),
          unit_of("block", block_graph(unit), state_of(block_parameters(sizes, ranks), recipe), {},
                  share * block_flops(sizes), stream),
          unit_of("head", head_graph(unit), head, table, share * head_flops(sizes), 0)};
}

/// Embedding, blocks, head.
std::vector<int> sequence_of(std::int64_t layers) {
  std::vector<int> sequence(static_cast<std::size_t>(layers) + 2, 1);
  sequence.front() = 0;
  sequence.back() = 2;
  return sequence;
}

}  // namespace

LayeredModel transformer_units(const TransformerRecipe& recipe) {
  estimate::from_sizes(recipe.sizes, recipe.training);  // refuses what does not fit together
  if (recipe.sizes.layers > kMostLayers) {
    throw InputError(fmt::format("{} layers are more than the {} that can be planned for",
                                 recipe.sizes.layers, kMostLayers));
  }
  const estimate::TransformerSizes& sizes = recipe.sizes;
  return {.name = "transformer",
          .kinds = {"embedding", "block", "head"},
          .sequence = sequence_of(sizes.layers),
          .compute = recipe.training.compute,
          .flops_per_sample =
              static_cast<double>(sizes.layers) * block_flops(sizes) + head_flops(sizes),
          .state = state_of(estimate::count_parameters(sizes), recipe),
          .can_split = [heads = sizes.heads](int ranks) { return heads % ranks == 0; },
          .can_take = [](std::int64_t) { return true; },
          .units = [recipe](const UnitRequest& request) { return units_of(recipe, request); }};
}

}  // namespace lowtide::parallel
