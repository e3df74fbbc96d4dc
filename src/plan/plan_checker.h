#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "plan/slower_checker.h"
#include "plan/taken_bytes.h"

namespace lowtide {

/// Follows a plan action by action. Functions throw BrokenRule at the first rule that it breaks.
class PlanChecker {
 public:
  PlanChecker(const Graph& graph, const Plan& plan);

  /// The action of this index, after those before it.
  void act(std::int32_t at);
  void check_end() const;
  void check_budget(std::optional<Bytes> budget) const;
  void check_claims() const;
  /// After the claims.
  void check_budgets_of_places() const { slower_.check_budgets(); }

 private:
  void run(const Action& action);
  void send_away(TensorId id);
  void write_residents(const Op& op, OpId id);
  void check_fresh(OpId id) const;
  void check_half(OpId id) const;
  std::vector<TensorId> overwrite(const Action& action);
  std::pair<TensorId, TensorId> in_place_pair(OpId id, int position) const;
  void make(OpId id, TensorId out);
  void place(TensorId storage);
  void take(const Placement& what, Bytes bytes);
  Bytes find_address(bool workspace, std::int32_t index) const;
  void drop(TensorId storage, std::string_view verb);
  void offload(TensorId storage);
  void prefetch(TensorId storage);

  bool is_value(TensorId storage) const { return graph_.tensor(storage).kind == Kind::value; }
  bool may_move(TensorId storage) const { return is_value(storage) || is_away_[storage]; }
  std::string text(TensorId id) const;
  std::string text(const Placement& what) const;
  std::string op_text(OpId id) const;
  Bytes arena_bytes() const { return residents_ + arena_.top(); }

  const Graph& graph_;
  const Plan& plan_;
  std::int32_t at_ = 0;
  std::vector<bool> live_;
  std::vector<bool> is_away_;   // a resident of slower memory
  std::vector<bool> is_old_;    // and its copy there lacks what an op wrote
  std::vector<Bytes> address_;  // per storage
  std::vector<int> runs_;
  OpId boundary_;                           // of the two halves of the step; kNone without one
  std::vector<std::vector<OpId>> writers_;  // per storage: ops that overwrite it
  TakenBytes arena_;
  SlowerChecker slower_;
  Bytes residents_ = 0, in_use_ = 0, peak_ = 0;
  double now_ = 0;  // when the last action ended
};

}  // namespace lowtide
