#include "slices/sums.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "slices/marks.h"

namespace lowtide::slices {
namespace {

constexpr std::array<std::string_view, 4> kLayouts = {"aten::t", "aten::view", "aten::permute",
                                                      "aten::transpose.int"};

/// One sum, found backwards from the op that adds last.
class SumFinder {
 public:
  SumFinder(const Graph& graph, const Marks& marks, OpId last)
      : graph_(graph), marks_(marks), total_(graph.op(last).outputs.front()) {
    is_found_ = adds(last) && !marks.is_read_in_slices(total_) && add_operands(last);
  }

  bool is_found() const { return is_found_; }
  TensorId total() const { return total_; }
  const std::vector<TensorId>& parts() const { return parts_; }
  const std::vector<OpId>& within() const { return within_; }

 private:
  bool adds(OpId id) const {
    const Op& op = graph_.op(id);
    return marks_.cut(id) != nullptr && op.type == "aten::add.Tensor" && op.inputs.size() == 2 &&
           op.args.size() == 2 && op.inputs[0] != op.inputs[1] &&
           std::ranges::count(marks_.cut(id)->reads, kTotal) == 2;
  }

  bool add_operands(OpId id) {
    within_.push_back(id);
    return std::ranges::all_of(graph_.op(id).inputs,
                               [&](TensorId operand) { return add_operand(operand); });
  }

  bool add_operand(TensorId operand) {
    if (!lies_as_total(operand)) return false;
    OpId id = graph_.producer(operand);
    while (is_layout(id) && has_one_reader(graph_.op(id).outputs.front())) {
      within_.push_back(id);
      id = graph_.producer(graph_.op(id).inputs.front());
    }
    if (id == kNone || marks_.cut(id) == nullptr) return false;
    if (adds(id)) {
      const TensorId sum = graph_.op(id).outputs.front();
      return has_one_reader(sum) && lies_as_total(sum) && add_operands(id);
    }
    return add_part(id);
  }

  /// The result of an op whose slices make parts of a sum, and read none.
  bool add_part(OpId id) {
    const Cut& cut = *marks_.cut(id);
    if (std::ranges::count(cut.reads, kTotal) > 0) return false;
    const auto found = std::ranges::find_if(graph_.op(id).outputs, [&](TensorId made) {
      return has_one_reader(made) && lies_as_total(made) && marks_.part(made) == kTotal &&
             leads_on(made);
    });
    if (found == graph_.op(id).outputs.end()) return false;
    parts_.push_back(*found);
    return true;
  }

  /// Whether a result of an op with several is the one that this sum reads.
  bool leads_on(TensorId made) const {
    return std::ranges::count(within_, graph_.readers(made).front()) > 0 &&
           std::ranges::count(parts_, made) == 0;
  }

  bool is_layout(OpId id) const {
    return id != kNone && marks_.cut(id) != nullptr &&
           std::ranges::count(kLayouts, graph_.op(id).type) > 0;
  }

  bool has_one_reader(TensorId id) const {
    return graph_.readers(id).size() == 1 && graph_.tensor(id).role == Role::none &&
           std::ranges::count(graph_.outputs(), id) == 0;
  }

  bool lies_as_total(TensorId id) const {
    const Tensor &a = graph_.tensor(id), &b = graph_.tensor(total_);
    return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
  }

  const Graph& graph_;
  const Marks& marks_;
  TensorId total_;
  std::vector<TensorId> parts_;
  std::vector<OpId> within_;
  bool is_found_ = false;
};

}  // namespace

Sums sums_of_parts(const Graph& graph, const Marks& marks) {
  Sums sums;
  for (OpId id = graph.num_ops() - 1; id >= 0; --id) {
    if (marks.cut(id) == nullptr || sums.within.contains(id)) continue;
    const SumFinder sum(graph, marks, id);
    if (!sum.is_found()) continue;
    for (TensorId part : sum.parts()) sums.of_part[part] = sum.total();
    sums.within.insert(sum.within().begin(), sum.within().end());
  }
  return sums;
}

}  // namespace lowtide::slices
