#include "parallel/units/transformer_graphs.h"

#include <string>

#include "parallel/cluster/collectives.h"
#include "parallel/units/unit_draft.h"

namespace lowtide::parallel {
namespace {

constexpr Bytes kFloatBytes = 4;
constexpr Bytes kMaskBytes = 1;

std::int64_t divided_up(std::int64_t whole, std::int64_t parts) {
  return (whole + parts - 1) / parts;
}

/// A normalization keeps its input, and these.
struct Normalized {
  TensorId input, statistics, output;
};

/// The draft of one unit of a transformer, with the ops that its units have in common. Sizes of
/// values are of one rank.
class TransformerDraft {
 public:
  TransformerDraft(const std::string& name, const TransformerUnit& unit)
      : draft(name, unit.training.compute, unit.device),
        unit_(unit),
        element(element_bytes(unit.training.compute)),
        tokens(unit.sizes.batch * unit.sizes.sequence),
        local_tokens(unit.split.sequence ? divided_up(tokens, unit.split.ranks) : tokens),
        width(unit.sizes.width),
        part(divided_up(unit.sizes.width, unit.split.ranks)) {}

  /// Bytes of the residual stream, as far as this rank has it, and of whole activations.
  Bytes stream() const { return local_tokens * width * element; }
  Bytes whole() const { return tokens * width * element; }
  /// Operations of a product of all tokens with a matrix.
  double product_flops(std::int64_t rows, std::int64_t columns) const {
    return 2.0 * static_cast<double>(tokens) * static_cast<double>(rows) *
           static_cast<double>(columns);
  }
  double weight_bytes(std::int64_t rows, std::int64_t columns) const {
    return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(element);
  }

  /// To a product that is divided by columns: all tokens on each rank.
  TensorId enter(const std::string& name, TensorId local) {
    if (!unit_.split.sequence || unit_.split.ranks == 1) return local;
    const TensorId gathered = draft.value(name + ".gathered", whole());
    draft.communicate(name + ".all_gather", local, gathered,
                      all_gather_seconds(unit_.cluster, group(), static_cast<double>(whole())),
                      false);
    return gathered;
  }
  /// From a product that is divided by rows: the sum over the ranks.
  TensorId leave(const std::string& name, TensorId partial) {
    if (unit_.split.ranks == 1) return partial;
    const auto bytes = static_cast<double>(whole());
    const TensorId sum = draft.value(name + ".sum", stream());
    if (unit_.split.sequence) {
      draft.communicate(name + ".reduce_scatter", partial, sum,
                        reduce_scatter_seconds(unit_.cluster, group(), bytes), false);
    } else {
      draft.communicate(name + ".all_reduce", partial, sum,
                        all_reduce_seconds(unit_.cluster, group(), bytes), true);
    }
    return sum;
  }

  Normalized norm(const std::string& name, TensorId input) {
    const Normalized done{input, draft.value(name + ".statistics", 2 * kFloatBytes * local_tokens),
                          draft.value(name + ".output", stream())};
    draft.run(name, {input}, {done.output, done.statistics});
    return done;
  }
  /// The gradient of the normalization's input; adds that of the residual stream, if any.
  TensorId norm_backward(const std::string& name, TensorId gradient, const Normalized& forward,
                         TensorId residual) {
    const TensorId result = draft.value(name + ".gradient", stream());
    std::vector<TensorId> inputs{gradient, forward.input, forward.statistics};
    if (residual != kNone) inputs.push_back(residual);
    draft.run(name + ".backward", inputs, {result}, 0, 0, 0);
    return result;
  }

  /// A product with weights of rows x columns; the columns are those of the result.
  TensorId product(const std::string& name, TensorId input, std::int64_t rows,
                   std::int64_t columns) {
    const TensorId output = draft.value(name + ".output", tokens * columns * element);
    draft.run(name, {input}, {output}, product_flops(rows, columns), weight_bytes(rows, columns));
    return output;
  }
  /// The gradients of input and weights.
  TensorId product_backward(const std::string& name, TensorId gradient, TensorId input,
                            std::int64_t rows, std::int64_t columns) {
    const TensorId result = draft.value(name + ".gradient", tokens * rows * element);
    draft.run(name + ".backward", {gradient, input}, {result}, 2 * product_flops(rows, columns),
              3 * weight_bytes(rows, columns));
    return result;
  }

  /// With its mask; without dropout nothing, and no mask.
  TensorId dropout(const std::string& name, TensorId input, Bytes elements, TensorId& mask) {
    if (!unit_.training.drops_out) return input;
    mask = draft.value(name + ".mask", elements * kMaskBytes);
    const TensorId output = draft.value(name + ".output", elements * element);
    draft.run(name, {input}, {output, mask}, 0, 0, 0);
    return output;
  }
  TensorId dropout_backward(const std::string& name, TensorId gradient, TensorId mask) {
    if (mask == kNone) return gradient;
    const TensorId result = draft.value(name + ".gradient", draft.bytes(gradient));
    draft.run(name + ".backward", {gradient, mask}, {result}, 0, 0, 0);
    return result;
  }

  UnitDraft draft;

 private:
  const TransformerUnit& unit_;
  Group group() const { return {.ranks = unit_.split.ranks, .nodes = 1}; }

 public:
  const Bytes element;
  const std::int64_t tokens, local_tokens, width, part;
};

/// A block: x + attention(norm x), then x + mlp(norm x).
class BlockDraft {
 public:
  explicit BlockDraft(const TransformerUnit& unit)
      : unit_(unit), t_("block", unit), heads_(divided_up(unit.sizes.heads, unit.split.ranks)) {}

  Graph graph() {
    x_ = t_.draft.receive("input", t_.stream());
    const TensorId result = mlp_forward(attention_forward());
    t_.draft.send(result);
    t_.draft.set_phase(Phase::backward);
    const TensorId gradient = t_.draft.receive("gradient", t_.stream());
    t_.draft.send(attention_backward(mlp_backward(gradient)));
    return t_.draft.build();
  }

 private:
  Bytes scores() const {
    return unit_.sizes.batch * heads_ * unit_.sizes.sequence * unit_.sizes.sequence;
  }
  /// Of one of the two products of attention that have no weights.
  double mixing_flops() const {
    return 2.0 * static_cast<double>(t_.tokens) * static_cast<double>(unit_.sizes.sequence) *
           static_cast<double>(t_.part);
  }

  TensorId attention_forward() {
    norm1_ = t_.norm("norm1", x_);
    attention_input_ = t_.enter("attention", norm1_.output);
    qkv_ = t_.product("attention.qkv", attention_input_, t_.width, 3 * t_.part);
    mixed_ = t_.draft.value("attention.mixed", t_.tokens * t_.part * t_.element);
    if (unit_.training.fused_attention) {
      log_sums_ = t_.draft.value("attention.log_sums", kFloatBytes * t_.tokens * heads_);
      t_.draft.run("attention.fused", {qkv_}, {mixed_, log_sums_}, 2 * mixing_flops());
    } else {
      const TensorId raw = t_.draft.value("attention.scores", scores() * t_.element);
      t_.draft.run("attention.products", {qkv_}, {raw}, mixing_flops());
      weights_ = t_.draft.value("attention.weights", scores() * t_.element);
      t_.draft.run("attention.softmax", {raw}, {weights_}, 0, 0, 0);
      dropped_ = t_.dropout("attention.dropout", weights_, scores(), weights_mask_);
      t_.draft.run("attention.mix", {dropped_, qkv_}, {mixed_}, mixing_flops());
    }
    const TensorId partial = t_.product("attention.projection", mixed_, t_.part, t_.width);
    return add("attention.add", x_, t_.leave("attention", partial), mask1_);
  }

  TensorId mlp_forward(TensorId middle) {
    norm2_ = t_.norm("norm2", middle);
    mlp_input_ = t_.enter("mlp", norm2_.output);
    hidden_ = t_.product("mlp.first", mlp_input_, t_.width, 4 * t_.part);
    activated_ = t_.draft.value("mlp.activated", t_.draft.bytes(hidden_));
    t_.draft.run("mlp.gelu", {hidden_}, {activated_});
    const TensorId partial = t_.product("mlp.second", activated_, 4 * t_.part, t_.width);
    return add("mlp.add", middle, t_.leave("mlp", partial), mask2_);
  }

  /// The residual stream and what a branch adds to it, after dropout.
  TensorId add(const std::string& name, TensorId stream, TensorId branch, TensorId& mask) {
    const TensorId kept = t_.dropout(name + ".dropout", branch, t_.local_tokens * t_.width, mask);
    const TensorId sum = t_.draft.value(name + ".output", t_.stream());
    t_.draft.run(name, {stream, kept}, {sum}, 0, 0, 1);
    return sum;
  }

  TensorId mlp_backward(TensorId gradient) {
    const TensorId branch =
        t_.enter("mlp.back", t_.dropout_backward("mlp.dropout", gradient, mask2_));
    const TensorId activated =
        t_.product_backward("mlp.second", branch, activated_, 4 * t_.part, t_.width);
    const TensorId hidden = t_.draft.value("mlp.gelu.gradient", t_.draft.bytes(hidden_));
    t_.draft.run("mlp.gelu.backward", {activated, hidden_}, {hidden}, 0, 0, 0);
    const TensorId partial =
        t_.product_backward("mlp.first", hidden, mlp_input_, t_.width, 4 * t_.part);
    return t_.norm_backward("norm2", t_.leave("mlp.back", partial), norm2_, gradient);
  }

  TensorId attention_backward(TensorId gradient) {
    const TensorId branch =
        t_.enter("attention.back", t_.dropout_backward("attention.dropout2", gradient, mask1_));
    const TensorId mixed =
        t_.product_backward("attention.projection", branch, mixed_, t_.part, t_.width);
    const TensorId qkv = t_.draft.value("attention.qkv.result.gradient", t_.draft.bytes(qkv_));
    if (unit_.training.fused_attention) {
      // The scores are computed again within it: five products instead of four.
      t_.draft.run("attention.fused.backward", {mixed, mixed_, log_sums_, qkv_}, {qkv},
                   5 * mixing_flops());
    } else {
      scores_backward(mixed, qkv);
    }
    const TensorId partial =
        t_.product_backward("attention.qkv", qkv, attention_input_, t_.width, 3 * t_.part);
    return t_.norm_backward("norm1", t_.leave("attention.back", partial), norm1_, gradient);
  }

  void scores_backward(TensorId mixed, TensorId qkv) {
    const TensorId dropped = t_.draft.value("attention.dropped.gradient", scores() * t_.element);
    const TensorId values = t_.draft.value("attention.values.gradient", t_.draft.bytes(mixed_));
    t_.draft.run("attention.mix.backward", {mixed, dropped_, qkv_}, {dropped, values},
                 2 * mixing_flops());
    const TensorId weights = t_.dropout_backward("attention.dropout", dropped, weights_mask_);
    const TensorId raw = t_.draft.value("attention.scores.gradient", scores() * t_.element);
    t_.draft.run("attention.softmax.backward", {weights, weights_}, {raw}, 0, 0, 0);
    t_.draft.run("attention.products.backward", {raw, qkv_, values}, {qkv}, 2 * mixing_flops());
  }

  const TransformerUnit& unit_;
  TransformerDraft t_;
  std::int64_t heads_;
  TensorId x_ = kNone, attention_input_ = kNone, qkv_ = kNone, mixed_ = kNone, log_sums_ = kNone,
           weights_ = kNone, dropped_ = kNone, weights_mask_ = kNone, mask1_ = kNone,
           mlp_input_ = kNone, hidden_ = kNone, activated_ = kNone, mask2_ = kNone;
  Normalized norm1_ = {}, norm2_ = {};
};

}  // namespace

Graph block_graph(const TransformerUnit& unit) { return BlockDraft(unit).graph(); }

Graph embedding_graph(const TransformerUnit& unit) {
  TransformerDraft t("embedding", unit);
  TensorId mask = kNone;
  const TensorId partial = t.draft.value("rows", t.whole());
  t.draft.run("lookup", {}, {partial});
  const TensorId sum = t.leave("embedding", partial);
  t.draft.send(t.dropout("embedding.dropout", sum, t.local_tokens * t.width, mask));
  t.draft.set_phase(Phase::backward);
  const TensorId gradient = t.draft.receive("gradient", t.stream());
  const TensorId dropped = t.dropout_backward("embedding.dropout", gradient, mask);
  t.draft.send(t.enter("embedding.back", dropped));
  return t.draft.build();
}

Graph head_graph(const TransformerUnit& unit) {
  TransformerDraft t("head", unit);
  const std::int64_t words = divided_up(unit.sizes.vocabulary, unit.split.ranks);
  const TensorId x = t.draft.receive("input", t.stream());
  const Normalized norm = t.norm("norm", x);
  const TensorId input = t.enter("head", norm.output);
  const TensorId logits = t.product("head.product", input, t.width, words);
  const TensorId logarithms = t.draft.value("loss.logarithms", kFloatBytes * t.tokens * words);
  t.draft.run("loss", {logits}, {logarithms});
  t.draft.set_phase(Phase::backward);
  const TensorId errors = t.draft.value("loss.errors", kFloatBytes * t.tokens * words);
  t.draft.run("loss.backward", {logarithms}, {errors});
  const TensorId gradient = t.draft.value("head.errors", t.draft.bytes(logits));
  t.draft.run("head.round", {errors}, {gradient}, 0, 0, 0);
  const TensorId partial = t.product_backward("head.product", gradient, input, t.width, words);
  t.draft.send(t.norm_backward("norm", t.leave("head.back", partial), norm, kNone));
  return t.draft.build();
}

std::int64_t block_parameters(const estimate::TransformerSizes& sizes, int tensor_ranks) {
  const std::int64_t part = divided_up(sizes.width, tensor_ranks);
  const std::int64_t divided = 12 * sizes.width * part + 7 * part;
  return divided + 6 * sizes.width;
}

std::int64_t table_parameters(const estimate::TransformerSizes& sizes, int tensor_ranks) {
  return divided_up(sizes.vocabulary, tensor_ranks) * sizes.width;
}

std::int64_t position_parameters(const estimate::TransformerSizes& sizes) {
  return sizes.sequence * sizes.width;
}

std::int64_t last_norm_parameters(const estimate::TransformerSizes& sizes) {
  return 2 * sizes.width;
}

}  // namespace lowtide::parallel
