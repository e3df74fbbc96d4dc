#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/executor.h"

namespace lowtide::train {

/// The results of a run as hashes: enough to tell whether two runs agree to the last bit.
struct RunRecord {
  struct Entry {
    TensorId tensor = kNone;  ///< kNone: the state of the random generator
    std::int64_t step = 0;    ///< of a loss or a gradient
    std::uint64_t hash = 0;
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> entries;
};

/// Fills a RunRecord during a run: call after each step, and at the end.
class Recorder {
 public:
  /// Watches the gradients of `executor`; replaces any earlier watcher.
  Recorder(const Graph& graph, runtime::Executor& executor);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Copies the gradients of the next step, for save_gradients().
  void keep_next_gradients() { keep_ = true; }
  void after_step(std::int64_t step);
  /// Adds every parameter, buffer and optimizer state, and the generator.
  RunRecord finish();
  /// Writes the kept gradients to a safetensors file, each under the name of its parameter.
  void save_gradients(const std::filesystem::path& path) const;

 private:
  void see(TensorId id, const at::Tensor& tensor);

  const Graph& graph_;
  runtime::Executor& executor_;
  std::vector<TensorId> gradients_;
  std::vector<std::uint64_t> hashes_;  // by tensor: of this step's gradients
  bool keep_ = false;
  std::map<TensorId, std::string> kept_;  // row-major bytes
  RunRecord record_;
};

std::vector<TensorId> tensors_with_role(const Graph& graph, Role role);

/// The first difference between two runs of `graph`, in words; nothing when they agree.
std::optional<std::string> first_difference(const Graph& graph, const RunRecord& a,
                                            const RunRecord& b);

}  // namespace lowtide::train
