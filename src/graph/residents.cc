#include "graph/residents.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace lowtide {
namespace {

std::string_view kind_of(Role role) {
  switch (role) {
    case Role::parameter: return "parameters";
    case Role::buffer: return "buffers";
    case Role::optimizer_state: return "optimizer state";
    case Role::input:
    case Role::target: return "batch";
    case Role::constant: return "constants";
    case Role::gradient: return "gradients";
    case Role::loss:
    case Role::none: break;
  }
  return "others";
}

}  // namespace

std::vector<ResidentBytes> residents_by_kind(const Graph& graph, const std::vector<bool>& without) {
  std::vector<ResidentBytes> kinds;
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.kind != Kind::resident || tensor.bytes == 0) continue;
    if (!without.empty() && without[static_cast<std::size_t>(id)]) continue;
    const std::string_view what = kind_of(tensor.role);
    auto known = std::ranges::find(kinds, what, &ResidentBytes::what);
    if (known == kinds.end()) known = kinds.insert(known, {what, 0});
    known->bytes += tensor.bytes;
  }
  std::ranges::stable_sort(kinds, std::greater<>(), &ResidentBytes::bytes);
  return kinds;
}

std::string format_kinds(const std::vector<ResidentBytes>& kinds) {
  std::string text;
  for (const ResidentBytes& kind : kinds) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kind.what, format_bytes(kind.bytes));
  }
  return text;
}

}  // namespace lowtide
