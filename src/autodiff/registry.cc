#include <map>

#include "autodiff/gradient.h"
#include "autodiff/rule.h"

namespace lowtide::autodiff {
namespace {

using Registry = std::map<std::string_view, const GradientRule*>;

Registry collect() {
  Registry registry;
  for (auto family :
       {pointwise_rules, activation_rules, view_rules, matrix_rules, convolution_rules,
        pooling_rules, normalization_rules, reduction_rules, indexing_rules, loss_rules}) {
    for (const GradientRule& rule : family()) registry.emplace(rule.type, &rule);
  }
  return registry;
}

const Registry& registry() {
  static const Registry all = collect();
  return all;
}

}  // namespace

const GradientRule* find_gradient_rule(std::string_view type) {
  const auto found = registry().find(type);
  return found == registry().end() ? nullptr : found->second;
}

std::vector<std::string> differentiable_ops() {
  std::vector<std::string> types;
  for (const auto& [type, rule] : registry()) types.emplace_back(type);
  return types;
}

}  // namespace lowtide::autodiff
