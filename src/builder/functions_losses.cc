#include "builder/apply.h"
#include "builder/functions.h"

namespace lowtide {
namespace {

constexpr std::int64_t kMean = 1;
constexpr std::int64_t kIgnoreNothing = -100;  // PyTorch's default: no class has this index

/// The scores of each place as N x C x 1 x places, the form that the kernel needs.
Value as_planes(Value scores) { return reshape(scores, {scores.size(0), scores.size(1), 1, -1}); }

}  // namespace

Value cross_entropy(Value logits, Value target) {
  autocast("cross_entropy_loss", {&logits});
  return nll_loss(log_softmax(logits, 1), target);
}

Value nll_loss(Value log_probabilities, Value target) {
  autocast("nll_loss", {&log_probabilities});
  const bool places = log_probabilities.dim() > 2;
  if (places) log_probabilities = contiguous(log_probabilities);  // as the gradient's kernel needs
  if (places && log_probabilities.dim() != 4) {
    log_probabilities = as_planes(log_probabilities);
    target = reshape(target, {target.size(0), 1, -1});
  }
  const auto type = places ? "aten::nll_loss2d_forward" : "aten::nll_loss_forward";
  return log_probabilities.builder().call(
      type, {log_probabilities, target, NoneArg{}, kMean, kIgnoreNothing})[0];
}

Value mse_loss(Value x, Value target) { return apply("aten::mse_loss", {x, target, kMean}); }

// log(1 + exp(-|x|)) neither overflows nor loses small terms, whatever the sign of x.
Value binary_cross_entropy_with_logits(Value x, Value target) {
  autocast("binary_cross_entropy_with_logits", {&x, &target});
  const Value soft = apply("aten::log1p", {exp(-abs(x))});
  return mean(relu(x) - x * target + soft);
}

}  // namespace lowtide
