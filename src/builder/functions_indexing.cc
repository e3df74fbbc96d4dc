#include "base/error.h"
#include "builder/apply.h"
#include "builder/functions.h"

/// Joining, padding, looking up, and dropout.
namespace lowtide {
namespace {

Value join(std::string_view type, std::vector<Value> parts, std::int64_t dim) {
  if (parts.empty()) throw InputError("Joining needs at least one tensor.");
  Builder& builder = parts.front().builder();
  return builder.call1(type, {std::move(parts), dim});
}

}  // namespace

Value cat(std::vector<Value> parts, std::int64_t dim) {
  return join("aten::cat", std::move(parts), dim);
}

Value stack(std::vector<Value> parts, std::int64_t dim) {
  return join("aten::stack", std::move(parts), dim);
}

Value embedding(Value weight, Value indices) { return apply("aten::embedding", {weight, indices}); }

Value pad(Value x, std::vector<std::int64_t> padding) {
  return apply("aten::constant_pad_nd", {x, std::move(padding)});
}

Value dropout(Value x, double probability) {
  if (probability == 0) return x;
  return x.builder().call("aten::native_dropout", {x, probability, true})[0];
}

}  // namespace lowtide
