#include "simulated/op_names.h"

#include <string_view>

namespace lowtide::simulated {

std::vector<OpName> aten_ops_with(c10::DispatchKey key) {
  constexpr std::string_view kNamespace = "aten::";
  std::vector<OpName> names;
  for (const c10::OperatorName& op :
       c10::Dispatcher::singleton().getAllOpNamesForDispatchKey(key)) {
    if (!op.name.starts_with(kNamespace)) continue;
    const std::string base = op.name.substr(kNamespace.size());
    names.push_back({base, op.overload_name.empty() ? base : base + "." + op.overload_name});
  }
  return names;
}

}  // namespace lowtide::simulated
