#include "slices/marks.h"

#include <algorithm>

#include "base/at.h"
#include "slices/rule.h"
#include "slices/segments.h"

namespace lowtide::slices {
namespace {

/// Of a resident with the batch: its micro-batches, or itself where there are none.
std::vector<TensorId> batches_in(const Graph& graph, TensorId resident) {
  std::vector<TensorId> found;
  for (OpId id : graph.readers(resident)) {
    const Op& op = graph.op(id);
    if (op.type != "aten::slice.Tensor") continue;
    const Shape& part = graph.tensor(op.outputs.front()).shape;
    if (part.front() < graph.tensor(resident).shape.front()) found.push_back(op.outputs.front());
  }
  return found.empty() ? std::vector{resident} : found;
}

std::vector<TensorId> batches_in(const Graph& graph) {
  std::vector<TensorId> found;
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    const bool is_batch = tensor.role == Role::input || tensor.role == Role::target;
    if (is_batch && !tensor.shape.empty())
      std::ranges::copy(batches_in(graph, id), std::back_inserter(found));
  }
  return found;
}

}  // namespace

Marks::Marks(const Graph& graph)
    : graph_(graph),
      parts_(at(graph.num_tensors())),
      found_(at(graph.num_ops())),
      stage_of_op_(at(graph.num_ops())),
      last_touch_(at(graph.num_tensors())),
      is_written_(at(graph.num_tensors())) {
  find_rows();
  for (OpId id = 0; size_ > 1 && id < graph.num_ops(); ++id) mark(id);
  leave_sums_alone();
  sums_ = sums_of_parts(graph_, *this);
  put_in_stages();
}

void Marks::find_rows() {
  const std::vector<TensorId> batches = batches_in(graph_);
  if (batches.empty()) return;
  size_ = graph_.tensor(batches.front()).shape.front();
  for (TensorId id : batches) {
    if (graph_.tensor(id).shape.front() == size_) parts_[at(id)] = part_of(Rows{});
  }
}

void Marks::mark(OpId id) {
  const Op& op = graph_.op(id);
  for (int position : op.mutates) {
    is_written_[at(graph_.storage(op.inputs[at(position)]))] = true;
  }
  const bool makes_rows = std::ranges::any_of(
      op.outputs, [&](TensorId made) { return parts_[at(made)] != kWhole; });  // a micro-batch
  if (op.phase == Phase::optimizer || op.outputs.empty() || makes_rows) return;
  found_[at(id)] = cut_of(CutQuestion(graph_, op, parts_, size_));
  if (!found_[at(id)]) return;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    parts_[at(op.outputs[i])] = found_[at(id)]->made[i];
  }
}

/// What follows a sum waits for the whole of it, where slices gain nothing by it.
void Marks::leave_sums_alone() {
  for (OpId id = graph_.num_ops() - 1; id >= 0; --id) {
    const Cut* found = cut(id);
    if (found == nullptr || std::ranges::count(found->reads, kTotal) == 0) continue;
    const Op& op = graph_.op(id);
    if (is_of_no_use_alone(graph_, op) && !is_read_in_slices(op.outputs.front())) leave_whole(id);
  }
}

void Marks::leave_whole(OpId id) {
  found_[at(id)].reset();
  for (TensorId made : graph_.op(id).outputs) parts_[at(made)] = kWhole;
}

const Cut* Marks::cut(OpId id) const {
  const std::optional<Cut>& found = found_[at(id)];
  return found && found->in_slices ? &*found : nullptr;
}

bool Marks::mixes_rows(OpId id) const { return found_[at(id)] && !found_[at(id)]->in_slices; }

bool Marks::any_cut() const {
  for (OpId id = 0; id < graph_.num_ops(); ++id) {
    if (cut(id) != nullptr) return true;
  }
  return false;
}

bool Marks::any_mixed() const {
  for (OpId id = 0; id < graph_.num_ops(); ++id) {
    if (mixes_rows(id)) return true;
  }
  return false;
}

bool Marks::is_in_slices(TensorId id) const {
  const OpId producer = graph_.producer(id);
  return producer != kNone && cut(producer) != nullptr;
}

bool Marks::reads_slices(OpId reader, std::size_t position) const {
  const Cut* found = cut(reader);
  if (found == nullptr || found->reads[position] == kWhole) return false;
  const TensorId read = graph_.op(reader).inputs[position];
  return is_in_slices(read) && part(read) == found->reads[position];
}

bool Marks::is_read_in_slices(TensorId id) const {
  return std::ranges::any_of(graph_.readers(id), [&](OpId reader) {
    const std::vector<TensorId>& inputs = graph_.op(reader).inputs;
    for (std::size_t position = 0; position < inputs.size(); ++position) {
      if (inputs[position] == id && reads_slices(reader, position)) return true;
    }
    return false;
  });
}

bool Marks::is_read_whole(TensorId id) const {
  if (graph_.tensor(id).role != Role::none || std::ranges::count(graph_.outputs(), id) > 0) {
    return true;
  }
  return std::ranges::any_of(graph_.readers(id), [&](OpId reader) {
    const std::vector<TensorId>& inputs = graph_.op(reader).inputs;
    for (std::size_t position = 0; position < inputs.size(); ++position) {
      if (inputs[position] == id && !reads_slices(reader, position)) return true;
    }
    return false;
  });
}

void Marks::put_in_stages() {
  int first = 0;
  for (const std::vector<OpId>& pass : passes(graph_)) {
    for (const std::vector<OpId>& segment : segments(graph_, pass)) {
      for (OpId id : segment) {
        const int stage = stage_of(id, first);
        stage_of_op_[at(id)] = stage;
        if (at(stage) >= stages_.size()) stages_.resize(at(stage) + 1);
        stages_[at(stage)].push_back(id);
        for (TensorId used : graph_.op(id).inputs) {
          const int behind = stage + (cut(id) != nullptr ? 1 : 0);
          last_touch_[at(graph_.storage(used))] =
              std::max(last_touch_[at(graph_.storage(used))], behind);
        }
      }
      first = static_cast<int>(stages_.size());
    }
  }
}

int Marks::stage_of(OpId id, int first) {
  const int stage = earliest_stage(id, first);
  if (!has_distant_sum(id, stage)) return stage;
  leave_whole(id);  // parts of a sum are not held from one stage to the next
  return earliest_stage(id, first);
}

/// Behind all that the op reads, and behind earlier uses of what it or they write.
int Marks::earliest_stage(OpId id, int first) const {
  int stage = first;
  const std::vector<TensorId>& inputs = graph_.op(id).inputs;
  for (std::size_t position = 0; position < inputs.size(); ++position) {
    const TensorId read = inputs[position];
    const OpId producer = graph_.producer(read);
    const bool waits = is_in_slices(read) && !reads_slices(id, position);
    if (producer != kNone) stage = std::max(stage, stage_of_op_[at(producer)] + (waits ? 1 : 0));
    const TensorId storage = graph_.storage(read);
    if (is_written_[at(storage)]) stage = std::max(stage, last_touch_[at(storage)]);
  }
  return stage;
}

bool Marks::has_distant_sum(OpId id, int stage) const {
  const Cut* found = cut(id);
  if (found == nullptr || sums_.within.contains(id)) return false;
  const std::vector<TensorId>& inputs = graph_.op(id).inputs;
  for (std::size_t position = 0; position < inputs.size(); ++position) {
    if (found->reads[position] != kTotal) continue;
    if (!reads_slices(id, position)) return true;
    if (stage_of_op_[at(graph_.producer(inputs[position]))] != stage) return true;
  }
  return false;
}

}  // namespace lowtide::slices
