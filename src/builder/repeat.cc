#include "builder/repeat.h"

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <type_traits>
#include <utility>

#include "base/at.h"
#include "base/error.h"

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
    const std::size_t dot = op.name.rfind('.');
    const std::string scope =
        dot == std::string::npos ? prefix : fmt::format("{}.{}", prefix, op.name.substr(0, dot));
    const Builder::Scope names(builder_, scope);
    builder_.set_phase(op.phase);
    const std::vector<Value> results = builder_.call(op.type, arguments_of(op));
    for (std::size_t i = 0; i < results.size(); ++i) replaced_[op.outputs[i]] = results[i];
    return results;
  }

  Replacements take() { return std::move(replaced_); }

 private:
  Value read(TensorId id) const {
    const auto found = replaced_.find(id);
    return found == replaced_.end() ? Value(&builder_, id) : found->second;
  }

  std::vector<CallArg> arguments_of(const Op& op) const {
    const auto given = [&](const auto& argument) -> CallArg {
      using Given = std::decay_t<decltype(argument)>;
      if constexpr (std::is_same_v<Given, TensorArg>) {
        return read(op.inputs[at(argument.position)]);
      } else if constexpr (std::is_same_v<Given, TensorListArg>) {
        std::vector<Value> values;
        for (int position : argument.positions) values.push_back(read(op.inputs[at(position)]));
        return values;
      } else if constexpr (std::is_same_v<Given, std::complex<double>>) {
        throw InputError(fmt::format("{}: a builder has no complex numbers.", op.type));
      } else {
        return argument;
      }
    };
    std::vector<CallArg> arguments;
    for (const Argument& argument : op.args) arguments.push_back(std::visit(given, argument));
    return arguments;
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
