#include "builder/repeat.h"

#include <algorithm>
#include <utility>

#include "base/at.h"
#include "builder/call_args.h"

namespace lowtide {
namespace {

class Repeater {
 public:
  Repeater(Builder& builder, Replacements replaced)
      : builder_(builder), replaced_(std::move(replaced)) {}

  bool is_replaced(const Op& op) const {
    return !op.outputs.empty() &&
           std::ranges::all_of(op.outputs, [&](TensorId id) { return replaced_.contains(id); });
  }

  std::vector<Value> append(const Op& op, const std::string& prefix) {
    const std::string scope = scope_of(op);
    const Builder::Scope names(builder_, scope.empty() ? prefix : prefix + "." + scope);
    builder_.set_phase(op.phase);
    const std::vector<Value> results = builder_.call(
        op.type, call_args(op, [&](int position) { return read(op.inputs[at(position)]); }));
    for (std::size_t i = 0; i < results.size(); ++i) replaced_[op.outputs[i]] = results[i];
    return results;
  }

  Replacements take() { return std::move(replaced_); }

 private:
  Value read(TensorId id) const {
    const auto found = replaced_.find(id);
    return found == replaced_.end() ? Value(&builder_, id) : found->second;
  }

  Builder& builder_;
  Replacements replaced_;
};

}  // namespace

Replacements repeat(Builder& builder, OpId begin, OpId end, Replacements replaced,
                    const std::string& prefix,
                    const std::function<void(TensorId original, Value again)>& made) {
  const Phase before = builder.phase();
  Repeater repeater(builder, std::move(replaced));
  for (OpId id = begin; id < end; ++id) {
    const Op op = builder.data().ops[at(id)];  // a copy: the list grows
    if (repeater.is_replaced(op)) continue;
    const std::vector<Value> results = repeater.append(op, prefix);
    for (std::size_t i = 0; i < results.size(); ++i) made(op.outputs[i], results[i]);
  }
  builder.set_phase(before);
  return repeater.take();
}

}  // namespace lowtide
