#include <fmt/format.h>

#include "models/families.h"
#include "models/layers.h"

namespace lowtide::models {
namespace {

/// One LSTM cell with its state; input, forget, cell and output gates in one product.
class Cell {
 public:
  Cell(Builder& builder, std::string_view name, std::int64_t batch, std::int64_t width)
      : hidden_(full(builder, {batch, width}, 0)), cell_(full(builder, {batch, width}, 0)) {
    Builder::Scope scope(builder, name);
    const Shape shape = {4 * width, 2 * width};
    weight_ = builder.parameter("weight", shape, init::fan_in_uniform(shape));
    bias_ = builder.parameter("bias", {4 * width}, init::fan_in_uniform(shape));
  }

  /// Advances by one time step and returns the hidden state.
  Value step(Value x) {
    const auto gates = chunk(linear(cat({x, hidden_}, 1), weight_, bias_), 4, 1);
    cell_ = sigmoid(gates[1]) * cell_ + sigmoid(gates[0]) * tanh(gates[2]);
    hidden_ = sigmoid(gates[3]) * tanh(cell_);
    return hidden_;
  }

 private:
  Value hidden_, cell_, weight_, bias_;
};

/// A language model: the next token at every time step, the recurrence unrolled.
ModelParts build_lstm(Builder& builder, const ModelOptions& options) {
  Value input = layers::token_input(builder, options);
  Value embedded = layers::embedding(input, "embedding", options.vocabulary, options.width).rows;
  std::vector<Cell> cells;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    cells.emplace_back(builder, fmt::format("cells.{}", i), options.batch, options.width);
  }
  std::vector<Value> hidden;
  for (Value x : unbind(embedded, 1)) {
    for (Cell& cell : cells) x = cell.step(x);
    hidden.push_back(x);
  }
  Value logits = layers::linear(stack(hidden, 1), "head", {.width = options.vocabulary});
  return layers::with_cross_entropy(input, logits, true);
}

const Model kLstmModels[] = {
    {"lstm",
     "unrolled LSTM language model",
     "Hochreiter, Schmidhuber: Long short-term memory, 1997",
     Task::tokens,
     {.batch = 32, .layers = 1, .width = 512, .sequence = 128, .vocabulary = 256},
     build_lstm}};

}  // namespace

std::span<const Model> lstm_models() { return kLstmModels; }

}  // namespace lowtide::models
