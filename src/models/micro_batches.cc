#include "models/micro_batches.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "base/at.h"
#include "base/error.h"
#include "builder/functions.h"
#include "builder/repeat.h"

namespace lowtide::models {
namespace {

std::string divisors_of(std::int64_t batch) {
  std::string text;
  for (std::int64_t divisor = 1; divisor <= batch; ++divisor) {
    if (batch % divisor != 0) continue;
    if (!text.empty()) text += divisor == batch ? " or " : ", ";
    text += std::to_string(divisor);
  }
  return text;
}

/// Part number `index` of the batch of which `first` is part 0.
Value part(Value first, std::int64_t index) {
  Builder& builder = first.builder();
  const Value whole(&builder, builder.data().tensors[at(first.id())].alias_of);
  const std::int64_t rows = first.size(0);
  return slice(whole, 0, index * rows, (index + 1) * rows);
}

}  // namespace

void check_micro_batches(std::int64_t count, std::int64_t batch) {
  if (count >= 1 && batch % count == 0) return;
  throw InputError(fmt::format(
      "a batch of {} has no {} micro-batches of one size: choose {} of them, or another --batch",
      batch, count, divisors_of(batch)));
}

LossAndAdjoints accumulated(const ModelParts& parts, LossAndAdjoints first, std::int64_t count) {
  Builder& builder = first.loss.builder();
  const auto end = static_cast<OpId>(builder.data().ops.size());
  std::map<TensorId, Value> sums{{first.loss.id(), first.loss}};
  for (Value adjoint : first.adjoints) sums[adjoint.id()] = adjoint;
  const auto add = [&](TensorId original, Value again) {
    const auto sum = sums.find(original);
    if (sum != sums.end()) sum->second = sum->second + again;
  };
  for (std::int64_t i = 1; i < count; ++i) {
    builder.set_phase(Phase::forward);
    const Replacements batch{{parts.input.id(), part(parts.input, i)},
                             {parts.target.id(), part(parts.target, i)}};
    repeat(builder, 0, end, batch, fmt::format("micro-batch-{}", i + 1), add);
  }
  builder.set_phase(Phase::backward);
  for (Value& adjoint : first.adjoints) adjoint = sums.at(adjoint.id());
  return {sums.at(first.loss.id()), std::move(first.adjoints)};
}

}  // namespace lowtide::models
