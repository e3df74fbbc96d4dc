#include "strategy/layers/model_layers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "strategy/checkpointing.h"

namespace lowtide::strategy::layers {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char letter) { return letter >= '0' && letter <= '9'; });
}

/// "blocks.0" of "blocks.0.attn.softmax"; "" for a name without a number before its last part.
std::string_view layer_in(std::string_view name) {
  std::size_t begin = 0;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
       dot = name.find('.', begin)) {
    if (is_number(name.substr(begin, dot - begin))) return name.substr(0, dot);
    begin = dot + 1;
  }
  return {};
}

ModelLayers layers_by_name(const Graph& graph, const remat::StageGraph& stages, int forward_end) {
  std::map<std::string_view, int> numbers;
  ModelLayers layers{std::vector<int>(forward_end, kNone)};
  for (int i = 0; i < forward_end; ++i) {
    const std::string_view layer = layer_in(graph.op(stages.stage(i).op).name);
    if (layer.empty()) continue;
    const auto [known, is_new] = numbers.try_emplace(layer, layers.count);
    if (is_new) ++layers.count;
    layers.of_stage[i] = known->second;
  }
  return layers;
}

/// `cuts`: the stages before which layers begin, without the first.
ModelLayers layers_between(const std::vector<int>& cuts, int forward_end) {
  ModelLayers layers{std::vector<int>(forward_end), static_cast<int>(cuts.size()) + 1};
  for (int i = 0; i < forward_end; ++i) {
    layers.of_stage[i] = static_cast<int>(std::ranges::upper_bound(cuts, i) - cuts.begin());
  }
  return layers;
}

std::vector<int> cuts_without_names(const remat::StageGraph& stages, int forward_end) {
  std::vector<int> cuts;
  for (const Cut& cut : articulation_cuts(stages, forward_end)) cuts.push_back(cut.stage);
  if (!cuts.empty()) return cuts;
  return even_cuts(forward_end, std::max(1, static_cast<int>(std::sqrt(forward_end))));
}

}  // namespace

ModelLayers model_layers(const Graph& graph, const remat::StageGraph& stages, int forward_end) {
  ModelLayers named = layers_by_name(graph, stages, forward_end);
  if (named.count >= 2) return named;
  return layers_between(cuts_without_names(stages, forward_end), forward_end);
}

}  // namespace lowtide::strategy::layers
