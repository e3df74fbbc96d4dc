#include "builder/functions.h"
#include "slices/rule.h"

// The loss of classes: a slice makes its part of the sum, which the whole batch's weight divides.
namespace lowtide::slices {
namespace {

using Found = std::optional<Cut>;

constexpr std::int64_t kMean = 1, kSum = 2;

/// Arguments with the scores and the classes have the rows in their first dimension.
std::optional<Rows> first_rows(const CutQuestion& q, std::size_t scores, std::size_t classes) {
  const std::optional<Rows> rows = q.rows(scores) ? q.rows(scores) : q.rows(classes);
  return rows && rows->dim == 0 ? rows : std::nullopt;
}

/// (scores, classes, weight, reduction, ignored) -> (loss, total weight)
Found nll_loss(const CutQuestion& q) {
  const std::optional<Rows> rows = first_rows(q, 0, 1);
  if (!rows || q.call().integer(3) != kMean) return std::nullopt;
  Cut cut = q.cut({0, 1}, *rows);
  cut.made = {kUnfinished, kUnfinished};
  cut.call = [](SliceCall call) {
    call.args[3] = kSum;
    return call.run();
  };
  cut.finish = [](const std::vector<Value>& totals) {
    return std::vector{totals[0] / totals[1], totals[1]};
  };
  return cut;
}

/// (gradient, scores, classes, weight, reduction, ignored, total weight): divides by that.
Found nll_loss_backward(const CutQuestion& q) {
  const std::optional<Rows> rows = first_rows(q, 1, 2);
  if (!rows || q.call().integer(4) != kMean) return std::nullopt;
  return q.cut({1, 2}, *rows);
}

constexpr SliceRule kLossRules[] = {
    {"aten::nll_loss_forward", nll_loss},
    {"aten::nll_loss2d_forward", nll_loss},
    {"aten::nll_loss_backward", nll_loss_backward},
    {"aten::nll_loss2d_backward", nll_loss_backward},
};

}  // namespace

std::span<const SliceRule> loss_rules() { return kLossRules; }

}  // namespace lowtide::slices
