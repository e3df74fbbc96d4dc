#include "autodiff/reverse.h"

#include <fmt/format.h>

#include <algorithm>

#include "autodiff/rule.h"
#include "base/error.h"
#include "builder/functions.h"

namespace lowtide::autodiff {
namespace {

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }

/// One sweep over the ops [begin, end), which are those of the graph at its start.
class ReverseSweep {
 public:
  ReverseSweep(Builder& builder, OpId begin, std::span<const Value> inputs)
      : builder_(builder),
        begin_(begin),
        end_(static_cast<OpId>(builder.data().ops.size())),
        depends_(builder.data().tensors.size()),
        adjoints_(builder.data().tensors.size()),
        overwritten_(builder.data().tensors.size(), kNone) {
    for (Value input : inputs) depends_[at(input.id())] = true;
    for (OpId id = begin_; id < end_; ++id) scan(builder_.data().ops[at(id)], id);
  }

  void accumulate(TensorId id, Value adjoint);
  void run();
  Value adjoint(TensorId id) const { return adjoints_[at(id)]; }

 private:
  void scan(const Op& op, OpId id);
  void step(OpId id);
  void check_writes(const Op& op) const;
  void check_reads(OpId differentiated, OpId first_appended) const;
  RuleContext context(const Op& op) const;
  std::vector<Value> values(const std::vector<TensorId>& ids) const;

  TensorId storage(TensorId id) const {
    const TensorId base = builder_.data().tensors[at(id)].alias_of;
    return base == kNone ? id : base;
  }

  Builder& builder_;
  OpId begin_, end_;
  std::vector<bool> depends_;      ///< by tensor: is an input or computed from one
  std::vector<Value> adjoints_;    ///< by tensor: the sum so far
  std::vector<OpId> overwritten_;  ///< by storage: the last op that writes it in place
};

/// Marks the tensors that `op` computes from the inputs or overwrites.
void ReverseSweep::scan(const Op& op, OpId id) {
  for (int position : op.mutates) overwritten_[at(storage(op.inputs[at(position)]))] = id;
  const bool dependent =
      std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId t) { return depends_[at(t)]; });
  if (!dependent) return;
  for (TensorId output : op.outputs) {
    if (is_floating(builder_.type(output).dtype)) depends_[at(output)] = true;
  }
}

/// Adds an adjoint, in the shape and dtype of its tensor.
void ReverseSweep::accumulate(TensorId id, Value adjoint) {
  const ops::TensorType& type = builder_.type(id);
  const Value fitted = to(sum_to(adjoint, type.shape), type.dtype);
  Value& sum = adjoints_[at(id)];
  sum = sum ? sum + fitted : fitted;
}

void ReverseSweep::run() {
  for (OpId id = end_ - 1; id >= begin_; --id) step(id);
}

void ReverseSweep::step(OpId id) {
  const Op op = builder_.data().ops[at(id)];  // a copy, since appending moves the originals
  check_writes(op);
  const RuleContext c = context(op);
  const auto has_value = [](Value adjoint) { return static_cast<bool>(adjoint); };
  if (std::none_of(c.adjoints.begin(), c.adjoints.end(), has_value)) return;
  if (std::find(c.wanted.begin(), c.wanted.end(), true) == c.wanted.end()) return;
  const GradientRule* rule = find_gradient_rule(op.type);
  if (!rule) {
    throw InputError(fmt::format("{} (op {}) has no gradient rule: compute its result without an "
                                 "differentiated input, or add a rule",
                                 op.type, op.name));
  }
  const auto first_appended = static_cast<OpId>(builder_.data().ops.size());
  for (const InputAdjoint& adjoint : rule->apply(c)) {
    accumulate(op.inputs[at(adjoint.position)], adjoint.value);
  }
  check_reads(id, first_appended);
}

/// Refuses a tensor that is needed after `op` overwrote it: its adjoint belongs to the new value.
void ReverseSweep::check_writes(const Op& op) const {
  for (int position : op.mutates) {
    const TensorId written = op.inputs[at(position)];
    if (!adjoints_[at(written)]) continue;
    throw InputError(fmt::format("{} (op {}) overwrites {}, through which a gradient is needed: "
                                 "use an op that returns its result",
                                 op.type, op.name, builder_.data().tensors[at(written)].name));
  }
}

/// An op's rule must find the op's inputs unchanged.
void ReverseSweep::check_reads(OpId differentiated, OpId first_appended) const {
  const GraphData& data = builder_.data();
  for (OpId id = first_appended; id < static_cast<OpId>(data.ops.size()); ++id) {
    for (TensorId input : data.ops[at(id)].inputs) {
      const TensorId base = storage(input);
      if (at(base) >= overwritten_.size() || overwritten_[at(base)] <= differentiated) continue;
      throw InputError(fmt::format(
          "the gradient of op {} needs {}, which op {} overwrites after it: call gradient() before",
          data.ops[at(differentiated)].name, data.tensors[at(base)].name,
          data.ops[at(overwritten_[at(base)])].name));
    }
  }
}

RuleContext ReverseSweep::context(const Op& op) const {
  RuleContext c{builder_, op, values(op.inputs), values(op.outputs), {}, {}};
  for (TensorId output : op.outputs) c.adjoints.push_back(adjoints_[at(output)]);
  for (TensorId input : op.inputs) c.wanted.push_back(depends_[at(input)]);
  return c;
}

std::vector<Value> ReverseSweep::values(const std::vector<TensorId>& ids) const {
  std::vector<Value> result;
  for (TensorId id : ids) result.emplace_back(&builder_, id);
  return result;
}

}  // namespace

std::vector<Value> reverse_sweep(Builder& builder, OpId begin, std::span<const Value> outputs,
                                 std::span<const Value> inputs, std::span<const Value> seeds) {
  ReverseSweep sweep(builder, begin, inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) sweep.accumulate(outputs[k].id(), seeds[k]);
  sweep.run();
  std::vector<Value> adjoints;
  for (Value input : inputs) adjoints.push_back(sweep.adjoint(input.id()));
  return adjoints;
}

}  // namespace lowtide::autodiff
