#include "simulated/op_names.h"

#include <string_view>

namespace lowtide::simulated {

namespace {

constexpr std::string_view kNamespace = "aten::";

}  // namespace

std::vector<OpName> aten_ops_with(c10::DispatchKey key) {
  std::vector<OpName> names;
  for (const c10::OperatorName& op :
       c10::Dispatcher::singleton().getAllOpNamesForDispatchKey(key)) {
    if (!op.name.starts_with(kNamespace)) continue;
    const std::string base = op.name.substr(kNamespace.size());
    names.push_back({base, op.overload_name.empty() ? base : base + "." + op.overload_name});
  }
  return names;
}

c10::SafeKernelFunction aten_kernel(const std::string& full_name, c10::DispatchKey key) {
  const std::size_t point = full_name.find('.');
  const std::string overload = point == std::string::npos ? "" : full_name.substr(point + 1);
  const std::string name = std::string(kNamespace) + full_name.substr(0, point);
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name.c_str(), overload.c_str())
      .getComputedKernelForDispatchKey(key);
}

}  // namespace lowtide::simulated
