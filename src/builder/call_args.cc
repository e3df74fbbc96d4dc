#include "builder/call_args.h"

#include <fmt/format.h>

#include <complex>
#include <type_traits>

#include "base/error.h"

namespace lowtide {

std::vector<CallArg> call_args(const Op& op, const std::function<Value(int position)>& read) {
  const auto given = [&](const auto& argument) -> CallArg {
    using Given = std::decay_t<decltype(argument)>;
    if constexpr (std::is_same_v<Given, TensorArg>) {
      return read(argument.position);
    } else if constexpr (std::is_same_v<Given, TensorListArg>) {
      std::vector<Value> values;
      for (int position : argument.positions) values.push_back(read(position));
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

std::string scope_of(const Op& op) {
  const std::size_t dot = op.name.rfind('.');
  return dot == std::string::npos ? std::string() : op.name.substr(0, dot);
}

}  // namespace lowtide
