#include "autodiff/rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <stdexcept>

#include "autodiff/reverse.h"
#include "base/error.h"
#include "builder/functions.h"

namespace lowtide::autodiff {
namespace {

/// Schema argument i as a T; nullptr when it is something else, None or left out.
template <typename T>
const T* get(const Op& op, std::size_t i) {
  return i < op.args.size() ? std::get_if<T>(&op.args[i]) : nullptr;
}

/// Turns one stored argument into an argument of Builder::call().
struct ToCallArg {
  const RuleContext& context;

  CallArg operator()(const TensorArg& arg) const {
    return context.inputs[static_cast<std::size_t>(arg.position)];
  }
  CallArg operator()(const TensorListArg& arg) const {
    std::vector<Value> values;
    for (int position : arg.positions) {
      values.push_back(context.inputs[static_cast<std::size_t>(position)]);
    }
    return values;
  }
  CallArg operator()(std::complex<double>) const {
    throw std::logic_error("a builder's op has a complex argument");  // call() accepts none
  }
  template <typename T>
  CallArg operator()(const T& arg) const {
    return arg;
  }
};

}  // namespace

Value RuleContext::arg(std::size_t i) const {
  const auto* tensor = get<TensorArg>(op, i);
  return tensor ? inputs[static_cast<std::size_t>(tensor->position)] : Value();
}

bool RuleContext::needs(std::size_t i) const {
  const auto* tensor = get<TensorArg>(op, i);
  return tensor && wanted[static_cast<std::size_t>(tensor->position)];
}

const std::vector<int>& RuleContext::list(std::size_t i) const {
  return std::get<TensorListArg>(op.args.at(i)).positions;
}

CallArg RuleContext::pass(std::size_t i) const {
  return i < op.args.size() ? std::visit(ToCallArg{*this}, op.args[i]) : CallArg(NoneArg());
}

double RuleContext::number(std::size_t i, double otherwise) const {
  if (const auto* real = get<double>(op, i)) return *real;
  const auto* integer = get<std::int64_t>(op, i);
  return integer ? static_cast<double>(*integer) : otherwise;
}

std::int64_t RuleContext::integer(std::size_t i, std::int64_t otherwise) const {
  const auto* integer = get<std::int64_t>(op, i);
  return integer ? *integer : otherwise;
}

bool RuleContext::flag(std::size_t i, bool otherwise) const {
  const auto* flag = get<bool>(op, i);
  return flag ? *flag : otherwise;
}

std::vector<std::int64_t> RuleContext::integers(std::size_t i) const {
  if (const auto* one = get<std::int64_t>(op, i)) return {*one};
  const auto* many = get<std::vector<std::int64_t>>(op, i);
  return many ? *many : std::vector<std::int64_t>();
}

Value RuleContext::adjoint() const {
  for (std::size_t k = 1; k < adjoints.size(); ++k) {
    if (adjoints[k]) {
      throw InputError(fmt::format("op {} ({}): its output {} has no gradient; only output 0 does",
                                   op.name, op.type, k));
    }
  }
  return adjoints.front();
}

Value RuleContext::adjoint_or_zeros(std::size_t k) const {
  if (adjoints[k]) return adjoints[k];
  return full(builder, outputs[k].shape(), 0, outputs[k].dtype());
}

void Adjoints::push(std::size_t i, Value value) {
  if (value) list_.push_back({std::get<TensorArg>(context_.op.args[i]).position, value});
}

std::vector<InputAdjoint> differentiate_as(const RuleContext& context,
                                           std::vector<Value> (*primitives)(const RuleContext&)) {
  const auto begin = static_cast<OpId>(context.builder.data().ops.size());
  const std::vector<Value> computed = primitives(context);
  std::vector<Value> outputs, seeds, inputs;
  for (std::size_t k = 0; k < computed.size(); ++k) {
    if (!context.adjoints[k]) continue;
    outputs.push_back(computed[k]);
    seeds.push_back(context.adjoints[k]);
  }
  std::vector<InputAdjoint> result;
  for (std::size_t p = 0; p < context.inputs.size(); ++p) {
    if (!context.wanted[p]) continue;
    inputs.push_back(context.inputs[p]);
    result.push_back({static_cast<int>(p), {}});
  }
  const std::vector<Value> adjoints = reverse_sweep(context.builder, begin, outputs, inputs, seeds);
  for (std::size_t k = 0; k < result.size(); ++k) result[k].value = adjoints[k];
  std::erase_if(result, [](const InputAdjoint& adjoint) { return !adjoint.value; });
  return result;
}

std::vector<Value> call_masked(const RuleContext& context, std::string_view type,
                               std::vector<CallArg> args, std::span<const std::size_t> arguments) {
  std::vector<std::int64_t> mask;
  for (std::size_t i : arguments) mask.push_back(context.needs(i));
  std::vector<Value> result(arguments.size());
  if (std::find(mask.begin(), mask.end(), 1) == mask.end()) return result;
  args.emplace_back(mask);
  const std::vector<Value> computed = context.builder.call(type, args);
  for (std::size_t k = 0, next = 0; k < mask.size(); ++k) {
    if (mask[k]) result[k] = computed[next++];
  }
  return result;
}

std::vector<std::int32_t> masked_outputs(const Op& op) {
  std::vector<std::int32_t> outputs;
  std::int32_t next = 0;
  for (std::int64_t wanted : std::get<std::vector<std::int64_t>>(op.args.back())) {
    outputs.push_back(wanted ? next++ : kNone);
  }
  return outputs;
}

Value scaled(Value x, double factor) { return factor == 1 ? x : x * factor; }

std::vector<InputAdjoint> zero_rule(const RuleContext&) { return {}; }

}  // namespace lowtide::autodiff
