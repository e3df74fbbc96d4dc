#pragma once

#include <optional>
#include <vector>

#include "slices/cut.h"
#include "slices/sums.h"

namespace lowtide::slices {

/// Which ops of a graph run in slices, and in which order the parts of the graph then run.
class Marks {
 public:
  explicit Marks(const Graph& graph);

  /// Rows of the batch, or of a micro-batch; 0 for a graph without a batch.
  std::int64_t size() const { return size_; }
  const Part& part(TensorId id) const { return parts_[static_cast<std::size_t>(id)]; }
  /// How an op runs in slices; nullptr for one that runs as a whole.
  const Cut* cut(OpId id) const;
  /// Whether an op mixes rows and its results have rows.
  bool mixes_rows(OpId id) const;
  bool any_cut() const;
  bool any_mixed() const;
  /// All slices of a stage run before the next one begins, and ops that run as a whole before the
  /// slices of their stage. A stage is of one phase.
  const std::vector<std::vector<OpId>>& stages() const { return stages_; }
  /// Whether an op takes, at a position of its inputs, what the same slice of the producer made.
  bool reads_slices(OpId reader, std::size_t position) const;
  /// Whether a tensor is needed as a whole, and whether an op needs it in slices.
  bool is_read_whole(TensorId id) const;
  bool is_read_in_slices(TensorId id) const;
  /// To which slices of several ops add their parts.
  const Sums& sums() const { return sums_; }

 private:
  void find_rows();
  void mark(OpId id);
  void leave_sums_alone();
  void leave_whole(OpId id);
  void put_in_stages();
  int stage_of(OpId id, int first);
  int earliest_stage(OpId id, int first) const;
  bool has_distant_sum(OpId id, int stage) const;
  bool is_in_slices(TensorId id) const;

  const Graph& graph_;
  std::int64_t size_ = 0;
  std::vector<Part> parts_;                ///< by tensor
  std::vector<std::optional<Cut>> found_;  ///< by op
  Sums sums_;
  std::vector<int> stage_of_op_;
  std::vector<int> last_touch_;  ///< by storage that an op writes: the last stage that uses it
  std::vector<bool> is_written_;
  std::vector<std::vector<OpId>> stages_;
};

}  // namespace lowtide::slices
