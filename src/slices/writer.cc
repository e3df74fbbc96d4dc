#include "slices/writer.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/at.h"
#include "builder/call_args.h"
#include "builder/functions.h"
#include "slices/copier.h"

namespace lowtide::slices {
namespace {

/// Writes the new graph: `copier_` holds what stands for tensors as a whole, `slices_` what does in
/// each slice.
class Writer {
 public:
  Writer(const Graph& graph, const Marks& marks, std::int64_t count, std::string name)
      : graph_(graph),
        marks_(marks),
        count_(count),
        copier_(graph, std::move(name)),
        slices_(at(graph.num_tensors())) {}

  void add_stage(const std::vector<OpId>& ops) {
    std::vector<OpId> cut;
    for (OpId id : ops) {
      if (marks_.cut(id) != nullptr) {
        cut.push_back(id);
      } else {
        add_whole(graph_.op(id));
      }
    }
    const bool is_backwards = !cut.empty() && graph_.op(cut.front()).phase == Phase::backward;
    for (std::int64_t i = 0; i < count_; ++i) {
      for (OpId id : cut) {
        if (marks_.sums().within.contains(id)) continue;
        add_slice(id, is_backwards ? count_ - 1 - i : i);
      }
    }
    for (OpId id : cut) finish(id);
  }

  Graph build() {
    for (TensorId id : graph_.outputs()) whole_of(id);
    return copier_.build();
  }

 private:
  std::int64_t border(std::int64_t index) const { return marks_.size() * index / count_; }

  void add_whole(const Op& op) {
    if (op.type == "aten::view") {  // elements of what was joined may lie otherwise
      const Value source = whole_of(op.inputs.front());
      const Shape& sizes = graph_.tensor(op.outputs.front()).shape;
      const auto results = copier_.make(op, [&] { return std::vector{reshape(source, sizes)}; });
      copier_.set(op.outputs.front(), results.front());
      return;
    }
    for (TensorId id : op.inputs) whole_of(id);
    copier_.copy(op, [&](TensorId id) { return whole_of(id); });
  }

  Value whole_of(TensorId id) {
    if (!copier_.has(id)) {
      const auto joined = [&] {
        return std::vector{cat(slices_[at(id)], marks_.part(id).rows.dim)};
      };
      copier_.set(id, copier_.make(graph_.op(graph_.producer(id)), joined).front());
    }
    return copier_.value(id);
  }

  Value slice_of_whole(TensorId id, Rows rows, std::int64_t index) {
    Value& found = cut_wholes_[{id, rows.dim, rows.unit, index}];
    if (!found) {
      found =
          slice(whole_of(id), rows.dim, border(index) * rows.unit, border(index + 1) * rows.unit);
    }
    return found;
  }

  /// What a slice of the op reads. A joined whole stands for its slices, which end with it.
  Value read(OpId id, std::size_t position, std::int64_t index) {
    const TensorId read = graph_.op(id).inputs[position];
    const Part& part = marks_.cut(id)->reads[position];
    if (part == kWhole) return whole_of(read);
    const bool is_made = marks_.reads_slices(id, position);
    if (part.kind == Part::Kind::rows && (!is_made || copier_.has(read))) {
      return slice_of_whole(read, part.rows, index);
    }
    return slices_[at(read)][at(index)];
  }

  void add_slice(OpId id, std::int64_t index) {
    const Op& op = graph_.op(id);
    const Cut& cut = *marks_.cut(id);
    const auto made = copier_.make(op, [&] {
      SliceCall call{copier_.builder(), op,
                     call_args(op, [&](int position) { return read(id, at(position), index); }),
                     border(index + 1) - border(index)};
      return add_to_sum(op, cut, call) ? std::vector<Value>() : run(cut, std::move(call));
    });
    for (std::size_t i = 0; i < made.size(); ++i) take(op.outputs[i], cut.made[i], made[i], index);
  }

  static std::vector<Value> run(const Cut& cut, SliceCall call) {
    return cut.call ? cut.call(std::move(call)) : call.run();
  }

  /// Adds the part of a slice to the sum of those before by the op's kernel, if it can.
  bool add_to_sum(const Op& op, const Cut& cut, const SliceCall& call) {
    const TensorId made = op.outputs.front(), sum = sum_of(made);
    const bool is_for_others = sum == made && marks_.is_read_in_slices(made);
    const bool can_add = cut.add_to && !is_for_others && copier_.has(sum);
    if (can_add) set_sum(sum, cut.add_to(call, copier_.value(sum)));
    return can_add;
  }

  void take(TensorId id, const Part& part, Value made, std::int64_t index) {
    std::vector<Value>& all = slices_[at(id)];
    all.resize(at(count_));
    all[at(index)] = made;
    const bool is_sum = part.kind == Part::Kind::total || part.kind == Part::Kind::unfinished;
    const TensorId sum = sum_of(id);
    const bool is_needed =
        part.kind == Part::Kind::unfinished || sum != id || marks_.is_read_whole(id);
    if (is_sum && is_needed) set_sum(sum, copier_.has(sum) ? copier_.value(sum) + made : made);
  }

  /// The sum of which that is a part: of several ops, or its own.
  TensorId sum_of(TensorId made) const {
    const auto found = marks_.sums().of_part.find(made);
    return found == marks_.sums().of_part.end() ? made : found->second;
  }

  /// A sum gets its role once it is complete.
  void set_sum(TensorId id, Value value) { copier_.set_without_role(id, value); }

  void finish(OpId id) {
    const Op& op = graph_.op(id);
    const Cut& cut = *marks_.cut(id);
    std::vector<Value> totals;
    for (TensorId made : op.outputs) totals.push_back(copier_.value(made));
    if (cut.finish) totals = copier_.make(op, [&] { return cut.finish(totals); });
    for (std::size_t i = 0; i < totals.size(); ++i) {
      if (cut.made[i].kind != Part::Kind::rows && totals[i]) copier_.set(op.outputs[i], totals[i]);
    }
  }

  const Graph& graph_;
  const Marks& marks_;
  std::int64_t count_;
  Copier copier_;
  std::vector<std::vector<Value>> slices_;
  std::map<std::tuple<TensorId, std::int64_t, std::int64_t, std::int64_t>, Value> cut_wholes_;
};

}  // namespace

Graph written(const Graph& graph, const Marks& marks, std::int64_t slices, std::string name) {
  Writer writer(graph, marks, slices, std::move(name));
  for (const std::vector<OpId>& stage : marks.stages()) writer.add_stage(stage);
  return writer.build();
}

}  // namespace lowtide::slices
