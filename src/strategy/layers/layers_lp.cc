#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "solver/highs.h"
#include "strategy/checkpointing.h"
#include "strategy/layers/model_layers.h"

namespace lowtide::strategy {
namespace {

using layers::ModelLayers;

/// A way to run a layer: how many of its stages run again, those first that free most bytes for
/// their cost.
struct Way {
  std::size_t again = 0;
  double kept = 0;  ///< bytes of its values that wait for the backward pass
  double cost = 0;  ///< of what runs again
};

struct Layer {
  /// Stages whose values only this layer reads in the forward pass: those whose values wait for the
  /// backward pass, and the others, which run again where one of the first kind needs them.
  std::vector<int> waiting, passing;
  std::vector<Way> ways;  ///< the one that keeps everything first
  int backward = 0;       ///< the first stage of its backward pass: it reads one of its values
};

bool waits(const remat::StageGraph& graph, int value, int forward_end) {
  return graph.value(value).last_reader() >= forward_end;
}

double waiting_bytes(const remat::StageGraph& graph, int stage, int forward_end) {
  double sum = 0;
  for (int v : graph.stage(stage).outputs) {
    if (waits(graph, v, forward_end)) sum += static_cast<double>(graph.value(v).bytes);
  }
  return sum;
}

class LayeredStep {
 public:
  explicit LayeredStep(const Graph& graph)
      : graph_(graph), end_(forward_end(graph_)), late_(late_bytes(graph_, end_)) {
    const ModelLayers found = layers::model_layers(graph, graph_, end_);
    layers_.resize(found.count);
    for (Layer& layer : layers_) layer.backward = graph_.end();
    for (int i = 0; i < end_; ++i) add(found, i);
    for (Layer& layer : layers_) add_ways(layer);
  }

  int num_layers() const { return static_cast<int>(layers_.size()); }

  /// The bytes of layers at the highest point of the backward pass when all values are kept, or
  /// none that can be made again.
  double all_kept() const {
    return highest([](const Layer& layer) { return layer.ways.front().kept; });
  }
  double none_kept() const {
    return highest([](const Layer& layer) { return layer.ways.back().kept; });
  }

  /// Columns: for each layer its ways, of which it takes shares that add up to 1. The other rows:
  /// what layers hold when the backward pass reaches each of them.
  solver::LinearProgram program(double limit) const {
    solver::LinearProgram program;
    for (const Layer& layer : layers_) {
      for (const Way& way : layer.ways) program.add_column(way.cost, 0, 1, false);
    }
    int column = 0;
    for (const Layer& layer : layers_) {
      for (std::size_t k = 0; k < layer.ways.size(); ++k) program.term(column++, 1);
      program.end_row(1, 1);
    }
    for (const Layer& now : layers_) add_memory_row(program, now, limit);
    return program;
  }

  /// Each layer takes the cheapest of its ways that keeps no more than its shares.
  std::vector<OpId> rounded(std::span<const double> shares) const {
    std::vector<int> again;
    std::size_t column = 0;
    for (const Layer& layer : layers_) {
      double kept = 0;
      for (const Way& way : layer.ways) kept += shares[column++] * way.kept;
      const auto way = std::ranges::find_if(
          layer.ways, [&](const Way& candidate) { return candidate.kept <= kept + 0.5; });
      const std::size_t count = way == layer.ways.end() ? layer.ways.back().again : way->again;
      again.insert(again.end(), layer.waiting.begin(),
                   layer.waiting.begin() + static_cast<std::ptrdiff_t>(count));
      again.insert(again.end(), layer.passing.begin(), layer.passing.end());
    }
    return order_without_outputs(graph_, end_, again);
  }

 private:
  void add(const ModelLayers& found, int stage) {
    const int layer = found.of_stage[stage];
    if (layer == kNone) return;
    bool only_here = true;
    for (int v : graph_.stage(stage).outputs) {
      for (int reader : graph_.value(v).readers) {
        if (reader < end_) only_here = only_here && found.of_stage[reader] == layer;
        if (reader >= end_) layers_[layer].backward = std::min(layers_[layer].backward, reader);
      }
    }
    if (!only_here || output_bytes(graph_, stage) == 0) return;
    const bool is_waiting = waiting_bytes(graph_, stage, end_) > 0;
    (is_waiting ? layers_[layer].waiting : layers_[layer].passing).push_back(stage);
  }

  void add_ways(Layer& layer) {
    constexpr std::size_t kSteps = 16;
    layer.waiting = most_bytes_per_cost_first(graph_, std::move(layer.waiting));
    std::vector<int> uncounted = layer.passing;
    Way way;
    for (int stage : layer.waiting) way.kept += waiting_bytes(graph_, stage, end_);
    layer.ways.push_back(way);
    for (std::size_t step = 1; step <= kSteps; ++step) {
      const std::size_t until = layer.waiting.size() * step / kSteps;
      if (until == way.again) continue;
      for (; way.again < until; ++way.again) {
        way.kept -= waiting_bytes(graph_, layer.waiting[way.again], end_);
        way.cost += cost_again(layer.waiting[way.again], uncounted);
      }
      layer.ways.push_back(way);
    }
  }

  /// Of the stage and of those `uncounted` that it needs, which are counted then.
  double cost_again(int stage, std::vector<int>& uncounted) const {
    double cost = graph_.stage(stage).cost;
    for (int v : graph_.stage(stage).inputs) {
      const auto needed = std::ranges::find(uncounted, graph_.value(v).producer);
      if (needed == uncounted.end()) continue;
      const int before = *needed;
      uncounted.erase(needed);
      cost += cost_again(before, uncounted);
    }
    return cost;
  }

  /// Bytes when the backward pass reaches the layer, without those of layers that it reaches later:
  /// the layer itself has everything, and there are the gradients of that time.
  double bytes_here(const Layer& layer) const {
    const Bytes late = layer.backward < graph_.end() ? late_[layer.backward] : 0;
    return layer.ways.front().kept + static_cast<double>(late);
  }

  void add_memory_row(solver::LinearProgram& program, const Layer& now, double limit) const {
    int column = 0;
    for (const Layer& layer : layers_) {
      for (const Way& way : layer.ways) {
        if (layer.backward > now.backward) program.term(column, way.kept);
        ++column;
      }
    }
    program.end_row(0, std::max(0.0, limit - bytes_here(now)));
  }

  template <typename Kept>
  double highest(Kept kept) const {
    double most = 0;
    for (const Layer& now : layers_) {
      double sum = bytes_here(now);
      for (const Layer& layer : layers_) {
        if (layer.backward > now.backward) sum += kept(layer);
      }
      most = std::max(most, sum);
    }
    return most;
  }

  remat::StageGraph graph_;
  int end_;
  std::vector<Bytes> late_;
  std::vector<Layer> layers_;
};

Decision decide_by_layers_lp(const PlanRequest& request) {
  constexpr int kTargets = 32;
  solver::SolverRequest relaxation;
  relaxation.relaxed = true;
  const LayeredStep step(request.graph);
  const double most = step.all_kept();
  Trials trials(request);
  for (int k = 0; k <= kTargets; ++k) {
    if (request.control.should_stop()) return trials.stopped();
    const double limit = most - (most - step.none_kept()) * k / kTargets;
    const solver::Solved solved =
        solver::solve_with_highs(step.program(limit), relaxation, request.control);
    if (!solved.values.empty()) trials.offer(step.rounded(solved.values));
  }
  return trials.decision(fmt::format("a linear program over {} layers", step.num_layers()));
}

}  // namespace

Strategy layers_lp_strategy() {
  return {.name = "layers-lp",
          .summary = "a linear program says how much each layer keeps, bytes per cost say what",
          .guarantee = "the cheapest of its plans for 33 amounts of memory",
          .paper = "the memory policy auto_perf_maxing of torchtitan, 2026",
          .options = {},
          .decide = decide_by_layers_lp};
}

}  // namespace lowtide::strategy
