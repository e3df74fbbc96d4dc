#include "estimate/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lowtide::estimate {
namespace {

constexpr Bytes kFloat = 4;
constexpr Bytes kIndex = 8;  // of a token

/// Bytes of an element, by its use.
struct Elements {
  Bytes compute;   ///< in products
  Bytes residual;  ///< of the stream that blocks add to
  Bytes parameter;
  Bytes state;        ///< of the optimizer, for each parameter, a master copy included
  Bytes weight_copy;  ///< of weights in the lower precision, while the step runs
};

Elements elements_of(const TransformerTraining& training) {
  const Bytes compute = element_bytes(training.compute);
  const bool lower = training.compute != DType::f32;
  const bool masters = lower && training.master_copy;
  const Bytes lasting = masters ? compute : kFloat;
  return {.compute = compute,
          .residual = lasting,
          .parameter = lasting,
          .state = kFloat * (training.states + (masters ? 1 : 0)),
          .weight_copy = lower && !masters ? compute : 0};
}

Bytes tokens_of(const TransformerSizes& sizes) { return sizes.batch * sizes.sequence; }

/// Elements of the matrices of scores of one block.
Bytes scores_of(const TransformerSizes& sizes) {
  return sizes.batch * sizes.heads * sizes.sequence * sizes.sequence;
}

Bytes block_weights(const TransformerSizes& sizes) { return 12 * sizes.width * sizes.width; }

Bytes embedding_weights(const TransformerSizes& sizes) { return sizes.vocabulary * sizes.width; }

/// Divided among the ranks, rounded up, where the shard says so.
Bytes divided(Bytes bytes, const TransformerTraining& training, Shard from) {
  if (training.shard < from) return bytes;
  return (bytes + training.ranks - 1) / training.ranks;
}

Bytes attention_activations(const TransformerSizes& sizes, const TransformerTraining& training) {
  const Bytes e = element_bytes(training.compute);
  const Bytes stream = tokens_of(sizes) * sizes.width;
  const Bytes operands = stream * 5 * e;  // the normalized input, q, k, v, and the mixed values
  const Bytes mask = training.drops_out ? stream : 0;
  if (training.fused_attention) {
    return operands + mask + kFloat * tokens_of(sizes) * sizes.heads;  // logarithms of sums
  }
  return operands + mask + scores_of(sizes) * (training.drops_out ? 2 * e + 1 : e);
}

Bytes mlp_activations(const TransformerSizes& sizes, const TransformerTraining& training) {
  const Bytes e = element_bytes(training.compute);
  const Bytes stream = tokens_of(sizes) * sizes.width;
  return stream * (1 + 4 + 4) * e + (training.drops_out ? stream : 0);
}

/// The inputs of both normalizations, and their means and deviations.
Bytes norm_activations(const TransformerSizes& sizes, const TransformerTraining& training) {
  const Bytes stream = tokens_of(sizes) * sizes.width;
  return 2 * (stream * elements_of(training).residual + 2 * kFloat * tokens_of(sizes));
}

/// Before the blocks: the sum of the embeddings, its mask of dropout, and the causal mask.
Bytes embedding_activations(const TransformerSizes& sizes, const TransformerTraining& training) {
  const Bytes stream = tokens_of(sizes) * sizes.width;
  const Bytes causal = training.fused_attention ? 0 : sizes.sequence * sizes.sequence;
  return stream * elements_of(training).residual + (training.drops_out ? stream : 0) + causal;
}

/// After the blocks: the normalized stream, the logarithms of the probabilities, and the loss.
Bytes head_activations(const TransformerSizes& sizes, const TransformerTraining& training) {
  const Elements element = elements_of(training);
  const Bytes tokens = tokens_of(sizes);
  return tokens * sizes.width * element.compute + 2 * kFloat * tokens +
         embedding_weights(sizes) * element.weight_copy + kFloat * tokens * sizes.vocabulary +
         2 * kFloat;
}

/// What the backward pass of an MLP makes for a while: the gradients of its result and of the
/// hidden layer, beside that of the residual stream. The gradient before gelu takes the place of
/// what gelu gave, which is not needed any more.
Bytes mlp_transients(const TransformerSizes& sizes, const TransformerTraining& training) {
  const Elements element = elements_of(training);
  return tokens_of(sizes) * sizes.width * (element.residual + 5 * element.compute);
}

/// The same of attention. The gradient of the scores before dropout takes the place of the scores
/// after dropout, which are not needed any more.
Bytes attention_transients(const TransformerSizes& sizes, const TransformerTraining& training) {
  const Elements element = elements_of(training);
  const Bytes stream = tokens_of(sizes) * sizes.width;
  const Bytes operands = stream * (element.residual + element.compute);
  if (training.fused_attention) return operands + 3 * stream * element.compute;
  return operands + scores_of(sizes) * element.compute * (training.drops_out ? 1 : 2);
}

void add_all_activations(Estimate& estimate, const TransformerSizes& sizes,
                         const TransformerTraining& training) {
  const Elements element = elements_of(training);
  const Bytes stream = tokens_of(sizes) * sizes.width;
  auto& layers = estimate.by_layer;
  if (training.checkpoints) {
    add_to(layers, "inputs of the blocks", sizes.layers * stream * element.residual);
    add_to(layers, "one block", block_activations(sizes, training));
  } else {
    add_to(layers, "embedding", embedding_activations(sizes, training));
    add_to(layers, "blocks, attention", sizes.layers * attention_activations(sizes, training));
    add_to(layers, "blocks, mlp", sizes.layers * mlp_activations(sizes, training));
    add_to(layers, "blocks, normalization", sizes.layers * norm_activations(sizes, training));
    add_to(layers, "blocks, copies of weights",
           sizes.layers * block_weights(sizes) * element.weight_copy);
  }
  add_to(layers, "head", head_activations(sizes, training));
  add_to(estimate.whole, "activations", sum(layers));
}

void add_held(Estimate& estimate, const TransformerSizes& sizes,
              const TransformerTraining& training) {
  const Elements element = elements_of(training);
  const Bytes count = count_parameters(sizes);
  auto& whole = estimate.whole;
  add_to(whole, "parameters", divided(count * element.parameter, training, Shard::parameters));
  add_to(whole, "optimizer state", divided(count * element.state, training, Shard::optimizer));
  add_to(whole, "batch", 2 * kIndex * tokens_of(sizes));
  if (!training.fused_attention) {
    add_to(whole, "constants", sizes.sequence * sizes.sequence);  // the causal mask
  }
}

/// Parameters of a block, which a rank has for a while where they are sharded.
Bytes gathered(const TransformerSizes& sizes, const TransformerTraining& training) {
  if (training.shard != Shard::parameters || training.ranks == 1) return 0;
  return (block_weights(sizes) + 13 * sizes.width) * elements_of(training).parameter;
}

struct Moment {
  std::string_view op, phase;
  Bytes activations, gradients, transients;
};

/// Gradients of so many weights, as far as a rank holds them.
Bytes gradients_of(Bytes weights, const TransformerTraining& training) {
  return divided(weights * elements_of(training).parameter, training, Shard::gradients);
}

/// The moments of a step at which a peak may be. Between them, bytes change in one direction.
std::vector<Moment> moments(const TransformerSizes& sizes, const TransformerTraining& training,
                            Bytes activations) {
  const Elements element = elements_of(training);
  const Bytes tokens = tokens_of(sizes), square = sizes.width * sizes.width;
  const Bytes block = block_activations(sizes, training);
  // Nothing reads the result of a block, and its mask of dropout, once its backward pass began.
  const Bytes result = tokens * sizes.width * (element.residual + (training.drops_out ? 1 : 0));
  const Bytes second_half =
      mlp_activations(sizes, training) + norm_activations(sizes, training) - 2 * kFloat * tokens;
  const Bytes last = activations - head_activations(sizes, training);
  const Bytes first = embedding_activations(sizes, training) + block;
  const Bytes table = embedding_weights(sizes);
  // All but those of the first block and of the positions, which come last.
  const Bytes others =
      count_parameters(sizes) - block_weights(sizes) - sizes.sequence * sizes.width;
  const auto gradients = [&](Bytes weights) { return gradients_of(weights, training); };
  const Bytes all = gradients(count_parameters(sizes));
  const Bytes of_mlp = mlp_transients(sizes, training);
  const Bytes of_attention = attention_transients(sizes, training);
  const Bytes logits = kFloat * tokens * sizes.vocabulary;
  const Bytes at_loss = training.checkpoints ? activations - block : activations;
  return {
      {"loss", "backward", at_loss, 0, 2 * logits},
      {"mlp of the last block", "backward", last - result, gradients(table + 4 * square), of_mlp},
      {"attention of the last block", "backward", last - second_half, gradients(table + 8 * square),
       of_attention},
      {"mlp of the first block", "backward", first - result, gradients(others + 4 * square),
       of_mlp},
      {"attention of the first block", "backward", first - second_half,
       gradients(others + 8 * square), of_attention},
      // The table of the tokens is used twice: its two gradients are added to a third tensor.
      {"embedding", "backward", 0, all, 2 * table * element.parameter},
      {"update", "optimizer", 0, all, 0}};
}

void add_highest_moment(Estimate& estimate, const TransformerSizes& sizes,
                        const TransformerTraining& training) {
  const std::vector<Moment> all = moments(sizes, training, bytes_of(estimate.whole, "activations"));
  const Moment most = *std::ranges::max_element(all, {}, [](const Moment& moment) {
    return moment.activations + moment.gradients + moment.transients;
  });
  add_to(estimate.at_peak, "gradients", most.gradients);
  add_to(estimate.at_peak, "activations", most.activations);
  add_to(estimate.at_peak, "gradients of activations", most.transients);
  add_to(estimate.at_peak, "gathered parameters", gathered(sizes, training));
  estimate.peak_bytes = sum(estimate.at_peak);
  estimate.peak_op = most.op;
  estimate.peak_phase = most.phase;
}

/// Far from the largest number of bytes, whatever is added to it.
constexpr double kMostBytes = 1e17;

/// More bytes than any part has, as a rough number that cannot overflow.
double upper_bound(const TransformerSizes& sizes) {
  const auto real = [](std::int64_t size) { return static_cast<double>(size); };
  const double stream = real(sizes.batch) * real(sizes.sequence) * real(sizes.width);
  const double scores =
      real(sizes.batch) * real(sizes.heads) * real(sizes.sequence) * real(sizes.sequence);
  const double logits = real(sizes.batch) * real(sizes.sequence) * real(sizes.vocabulary);
  const double weights = (real(sizes.vocabulary) + real(sizes.sequence)) * real(sizes.width) +
                         real(sizes.layers) * 25 * real(sizes.width) * real(sizes.width);
  return real(sizes.layers) * (100 * stream + 9 * scores) + 32 * weights + 16 * logits;
}

void require(bool holds, std::string_view message) {
  if (!holds) throw InputError(std::string(message));
}

void check(const TransformerSizes& sizes, const TransformerTraining& training) {
  for (const auto& [option, size] : {std::pair{"layers", sizes.layers},
                                     {"width", sizes.width},
                                     {"heads", sizes.heads},
                                     {"vocabulary", sizes.vocabulary},
                                     {"sequence", sizes.sequence},
                                     {"batch", sizes.batch}}) {
    require(size >= 1, fmt::format("a transformer by its sizes needs --{0}, and it is {1}: give "
                                   "--{0} 1 or more.",
                                   option, size == 0 ? "not given" : fmt::format("{}", size)));
  }
  require(sizes.width % sizes.heads == 0,
          fmt::format("width {} is not divisible by {} heads: choose heads that divide it",
                      sizes.width, sizes.heads));
  require(upper_bound(sizes) < kMostBytes,
          "these sizes make more bytes than can be counted: are they what was meant?");
  require(!training.master_copy || training.compute != DType::f32,
          "a master copy is for a lower precision: give --precision bf16 or fp16, or leave "
          "--master-copy out.");
  require(training.ranks >= 1, "there must be at least one rank: give --ranks 1 or more.");
  require(training.shard != Shard::nothing || training.ranks == 1,
          "ranks that share nothing need what one alone needs: say what they divide by --shard "
          "optimizer, gradients or parameters.");
}

std::vector<std::string> notes_of(const TransformerTraining& training) {
  std::vector<std::string> notes = {
      "By formulas, for a decoder like GPT-3. Workspaces of ops are not counted."};
  if (training.shard != Shard::nothing) {
    notes.push_back(fmt::format("Of one of {} ranks; buffers for communication are not counted.",
                                training.ranks));
  }
  return notes;
}

}  // namespace

Shard parse_shard(std::string_view text) {
  if (text == "optimizer") return Shard::optimizer;
  if (text == "gradients") return Shard::gradients;
  if (text == "parameters") return Shard::parameters;
  throw InputError(fmt::format(
      "\"{}\" is nothing that ranks divide: write optimizer, gradients or parameters.", text));
}

std::int64_t count_parameters(const TransformerSizes& sizes) {
  const std::int64_t block = block_weights(sizes) + 13 * sizes.width;
  return embedding_weights(sizes) + sizes.sequence * sizes.width + sizes.layers * block +
         2 * sizes.width;
}

Bytes block_activations(const TransformerSizes& sizes, const TransformerTraining& training) {
  return attention_activations(sizes, training) + mlp_activations(sizes, training) +
         norm_activations(sizes, training) +
         block_weights(sizes) * elements_of(training).weight_copy;
}

Estimate from_sizes(const TransformerSizes& sizes, const TransformerTraining& training) {
  check(sizes, training);
  Estimate estimate{.name = "transformer", .parameters = count_parameters(sizes)};
  add_held(estimate, sizes, training);
  estimate.at_peak = estimate.whole;
  const Bytes gradients = estimate.parameters * elements_of(training).parameter;
  add_to(estimate.whole, "gradients", divided(gradients, training, Shard::gradients));
  add_all_activations(estimate, sizes, training);
  add_highest_moment(estimate, sizes, training);
  estimate.notes = notes_of(training);
  return estimate;
}

}  // namespace lowtide::estimate
