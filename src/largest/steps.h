#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

#include "graph/graph.h"
#include "planner/planner.h"

namespace lowtide::largest {

/// What running one step showed.
struct StepRun {
  Bytes measured_peak_bytes = 0;  ///< everything that the step held
  double seconds = 0;
};

/// The training step of a model at any size: a batch of so many examples, or a length of so many
/// tokens. Members throw InputError for a size that the model cannot have, StoppedError on a stop
/// request.
class Steps {
 public:
  virtual ~Steps() = default;

  /// Without workspaces: no plan of the step needs less than one of this graph.
  virtual Graph bare(std::int64_t size) = 0;
  /// Told once, before estimated(): no size above this one can fit.
  virtual void expect(std::int64_t /*largest*/) {}
  /// With times and workspaces as they are known without measuring this size.
  virtual Graph estimated(std::int64_t size) = 0;
  /// Whether measured() may be called.
  virtual bool are_measured() const = 0;
  /// With those of this device at this size.
  virtual Graph measured(std::int64_t size) = 0;
  /// Bytes of the budget that a plan of this graph cannot have.
  virtual Bytes reserved_bytes(const Graph& /*graph*/) { return 0; }
  /// Runs a step as planned; nothing where it is not to be run, or where this machine has not the
  /// memory now. `graph` is of measured(size).
  virtual std::optional<StepRun> run(std::int64_t size, const Graph& graph,
                                     const planner::Planned& planned) = 0;
};

/// Steps whose times are given or estimated, and which are not run.
class UnmeasuredSteps : public Steps {
 public:
  explicit UnmeasuredSteps(std::function<Graph(std::int64_t size)> graph)
      : graph_(std::move(graph)) {}

  Graph bare(std::int64_t size) override { return graph_(size); }
  Graph estimated(std::int64_t size) override { return graph_(size); }
  bool are_measured() const override { return false; }
  Graph measured(std::int64_t /*size*/) override {
    throw std::logic_error("these steps are not measured");
  }
  std::optional<StepRun> run(std::int64_t /*size*/, const Graph& /*graph*/,
                             const planner::Planned& /*planned*/) override {
    return std::nullopt;
  }

 private:
  std::function<Graph(std::int64_t size)> graph_;
};

}  // namespace lowtide::largest
