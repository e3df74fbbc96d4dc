#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "strategy/checkpointing.h"
#include "strategy/layers/model_layers.h"

namespace lowtide::strategy {
namespace {

using layers::ModelLayers;

/// In the order of the options' choices.
enum class Granularity : std::uint8_t { full, selective };
enum class Method : std::uint8_t { uniform, block };

bool is_matrix_product(std::string_view type) {
  constexpr std::array kTypes{"aten::bmm", "aten::baddbmm", "aten::matmul", "aten::einsum"};
  return std::ranges::find(kTypes, type) != kTypes.end();
}

bool is_softmax(std::string_view type) {
  return type.find("softmax") != std::string_view::npos &&
         type.find("log_softmax") == std::string_view::npos;
}

/// Parts of the forward pass that are each made again as a whole: the part of each stage, or kNone
/// for one that is kept.
using Parts = std::vector<int>;

/// What is read within its part alone is not kept.
Checkpoints checkpoints_of(const remat::StageGraph& graph, const Parts& parts) {
  const auto end = static_cast<int>(parts.size());
  const auto part_of = [&](int stage) { return stage < end ? parts[stage] : kNone; };
  Checkpoints chosen{std::vector<bool>(graph.num_values(), true), lone_groups(graph)};
  std::vector<int> first(graph.num_stages(), kNone);
  for (int i = 0; i < end; ++i) {
    const int part = parts[i];
    if (part == kNone) continue;
    if (first[part] == kNone) first[part] = i;
    chosen.group[i] = first[part];
  }
  for (int v = 0; v < graph.num_values(); ++v) {
    const remat::StageValue& value = graph.value(v);
    const int part = part_of(value.producer);
    chosen.kept[v] = part == kNone || std::ranges::any_of(value.readers, [&](int reader) {
                       return reader < end && part_of(reader) != part;
                     });
  }
  return chosen;
}

/// Chunks of `count` layers (uniform), or the first `count` layers, each by itself (block).
Parts parts_of_layers(const ModelLayers& layers, Method method, int count) {
  Parts parts(layers.of_stage.size(), kNone);
  for (std::size_t i = 0; i < layers.of_stage.size(); ++i) {
    const int layer = layers.of_stage[i];
    if (layer == kNone) continue;
    if (method == Method::uniform) parts[i] = layer / count;
    if (method == Method::block && layer < count) parts[i] = layer;
  }
  return parts;
}

/// The core of attention: of each softmax in a layer, the ops from the matrix product before it to
/// the one behind it.
class AttentionCores {
 public:
  AttentionCores(const Graph& graph, const remat::StageGraph& stages, const ModelLayers& layers)
      : graph_(graph), stages_(stages), layers_(layers), parts_(size(), kNone) {
    for (int i = 0; i < size(); ++i) {
      if (layers.of_stage[i] == kNone || !is_softmax(type(i)) || parts_[i] != kNone) {
        continue;
      }
      parts_[i] = count_;
      add_before(i);
      add_behind(i);
      ++count_;
    }
  }

  /// The cores in the first `layers` layers.
  Parts in_first(int layers) const {
    Parts chosen = parts_;
    for (int i = 0; i < size(); ++i) {
      if (layers_.of_stage[i] >= layers) chosen[i] = kNone;
    }
    return chosen;
  }

 private:
  int size() const { return static_cast<int>(layers_.of_stage.size()); }
  const std::string& type(int stage) const { return graph_.op(stages_.stage(stage).op).type; }

  /// Whether the stage was added, and is not where the core ends.
  bool add(int stage, int from) {
    if (stage >= size() || layers_.of_stage[stage] != layers_.of_stage[from]) return false;
    if (parts_[stage] != kNone) return false;
    parts_[stage] = count_;
    return !is_matrix_product(type(stage));
  }
  void add_before(int stage) {
    for (int v : stages_.stage(stage).inputs) {
      const int producer = stages_.value(v).producer;
      if (add(producer, stage)) add_before(producer);
    }
  }
  void add_behind(int stage) {
    for (int v : stages_.stage(stage).outputs) {
      for (int reader : stages_.value(v).readers) {
        if (add(reader, stage)) add_behind(reader);
      }
    }
  }

  const Graph& graph_;
  const remat::StageGraph& stages_;
  const ModelLayers& layers_;
  Parts parts_;
  int count_ = 0;
};

Decision decide_by_megatron(const PlanRequest& request) {
  const remat::StageGraph graph(request.graph);
  const int end = forward_end(graph);
  const ModelLayers layers = layers::model_layers(request.graph, graph, end);
  const auto granularity = static_cast<Granularity>(request.options.at("granularity"));
  const auto method = static_cast<Method>(request.options.at("method"));
  const int asked = std::min(static_cast<int>(request.options.at("layers")), layers.count);
  const AttentionCores cores(request.graph, graph, layers);
  Trials trials(request);
  if (asked == 0) trials.offer(remat::stage_order(graph));
  for (int count : asked > 0 ? std::vector{asked} : useful_counts(layers.count)) {
    if (request.control.should_stop()) return trials.stopped();
    const Parts parts = granularity == Granularity::selective
                            ? cores.in_first(count)
                            : parts_of_layers(layers, method, count);
    trials.offer(checkpointed_order(graph, end, checkpoints_of(graph, parts)));
  }
  return trials.decision(fmt::format("checkpoints of {} layers", layers.count));
}

}  // namespace

Strategy megatron_strategy() {
  return {
      .name = "megatron",
      .summary = "runs the model's layers again, as users of Megatron-LM ask for it",
      .guarantee = "each op of a layer runs at most twice",
      .paper = "Korthikanti et al.: Reducing activation recomputation in large transformer models, "
               "2022",
      .options = {choice_option(
                      "granularity",
                      "what is run again: layers (full), or of each layer the core of its "
                      "attention (selective)",
                      {"full", "selective"}),
                  choice_option(
                      "method",
                      "of full: chunks of so many layers each, as torch.utils.checkpoint of "
                      "each layer does with 1 (uniform); or so many of the first layers (block)",
                      {"uniform", "block"}),
                  integer_option("layers",
                                 "how many: per chunk, or of the first layers; 0 tries all numbers",
                                 0, {0, 1e6})},
      .decide = decide_by_megatron};
}

}  // namespace lowtide::strategy
