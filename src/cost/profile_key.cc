#include <fmt/format.h>
#include <fmt/ranges.h>

#include <complex>

#include "cost/profile.h"
#include "graph/marks.h"

namespace lowtide::cost {
namespace {

std::string type_text(const Graph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  std::string text =
      fmt::format("{}[{}]", tensor.dtype ? name(*tensor.dtype) : "?", fmt::join(tensor.shape, ","));
  if (!tensor.strides.empty()) text += fmt::format("{{{}}}", fmt::join(tensor.strides, ","));
  const Marks marks = marks_of(graph, id);
  if (marks.conjugate) text += " conjugate";
  if (marks.negative) text += " negative";
  return text;
}

/// Writes one argument as in a call.
struct Writer {
  const Graph& graph;
  const Op& op;

  std::string input(int position) const {
    if (position == kNone) return "None";
    return type_text(graph, op.inputs[static_cast<std::size_t>(position)]);
  }
  std::string operator()(NoneArg) const { return "None"; }
  std::string operator()(TensorArg tensor) const { return input(tensor.position); }
  std::string operator()(const TensorListArg& list) const {
    std::vector<std::string> texts;
    for (int position : list.positions) texts.push_back(input(position));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(std::complex<double> value) const {
    return fmt::format("({}, {})", value.real(), value.imag());
  }
  std::string operator()(const std::vector<std::int64_t>& values) const {
    return fmt::format("[{}]", fmt::join(values, ","));
  }
  std::string operator()(const std::vector<double>& values) const {
    return fmt::format("[{}]", fmt::join(values, ","));
  }
  std::string operator()(DType dtype) const { return std::string(name(dtype)); }
  std::string operator()(const std::string& text) const { return fmt::format("\"{}\"", text); }
};

}  // namespace

std::string profile_key(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  const Writer writer{graph, op};
  std::vector<std::string> texts;
  if (op.args.empty()) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      texts.push_back(writer.input(static_cast<int>(i)));
    }
  }
  for (const Argument& argument : op.args) texts.push_back(std::visit(writer, argument));
  return fmt::format("{}({})", op.type, fmt::join(texts, ", "));
}

}  // namespace lowtide::cost
