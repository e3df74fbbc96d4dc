#include "slices/batch_norm.h"

#include "base/at.h"
#include "builder/apply.h"
#include "builder/call_args.h"
#include "builder/functions.h"
#include "slices/copier.h"

namespace lowtide::slices {
namespace {

using Args = std::vector<CallArg>;

/// A tensor argument; empty for None.
Value tensor(const Args& args, std::size_t i) {
  const auto* value = std::get_if<Value>(&args.at(i));
  return value == nullptr ? Value() : *value;
}

double number(const Args& args, std::size_t i) {
  const auto* real = std::get_if<double>(&args.at(i));
  return real != nullptr ? *real : static_cast<double>(std::get<std::int64_t>(args.at(i)));
}

/// Elements of a channel.
double count_of(Value x) {
  return static_cast<double>(x.type().elements()) / static_cast<double>(x.size(1));
}

Value per_channel(Value statistic, Value x) {
  Shape shape(x.shape().size(), 1);
  shape[1] = x.size(1);
  return reshape(statistic, shape);
}

/// Over all but channels. The sum is in f32: that of half precision overflows, where the mean does
/// not.
Value channel_mean(Value x) {
  std::vector<std::int64_t> dims;
  for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
    if (dim != 1) dims.push_back(dim);
  }
  const Value sum = apply("aten::sum.dim_IntList", {x, std::move(dims), false, DType::f32});
  return sum * (1 / count_of(x));
}

void move_running(Value running, Value value, double momentum) {
  if (!running) return;
  const Value moved = apply("aten::add.Tensor", {running * (1 - momentum), value, momentum});
  running.builder().call("aten::copy_", {running, moved});
}

/// native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, epsilon)
/// -> (output, mean, inverse deviation)
std::vector<Value> forward(const Args& args) {
  const Value x = tensor(args, 0), weight = tensor(args, 1), bias = tensor(args, 2);
  const double momentum = number(args, 6), epsilon = number(args, 7), count = count_of(x);
  const Value mean = channel_mean(x);
  const Value centered = x - per_channel(mean, x);
  const Value variance = channel_mean(centered * centered);
  const Value inverse = rsqrt(variance + epsilon);
  const Value scale = per_channel(weight ? inverse * weight : inverse, x);
  const Value again = x - per_channel(mean, x);
  const Value y =
      bias ? apply("aten::addcmul", {per_channel(bias, x), again, scale}) : again * scale;
  move_running(tensor(args, 3), mean, momentum);
  move_running(tensor(args, 4), count > 1 ? variance * (count / (count - 1)) : variance, momentum);
  return {to(y, x.dtype()), mean, inverse};
}

/// native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean,
/// save_invstd, train, epsilon, output_mask). The gradient of the input is a sum of multiples of
/// the gradient, of the input less its mean, which may be far larger than what is left, and of one.
/// The factors, by channel, come from sums over the whole batch.
std::vector<Value> backward(const Args& args) {
  const Value gradient = tensor(args, 0), x = tensor(args, 1), weight = tensor(args, 2);
  const Value mean = tensor(args, 5), inverse = tensor(args, 6);
  const auto& mask = std::get<std::vector<std::int64_t>>(args.at(9));
  const Value variance = pow(inverse, -2) - number(args, 8);
  const std::vector<Value> sums =
      x.builder().call("aten::native_batch_norm_backward",
                       {gradient, x, args[2], mean, variance, NoneArg(), NoneArg(), false, args[8],
                        std::vector<std::int64_t>{0, 1, 1}});
  const Value of_weight = sums[0], of_bias = sums[1];
  std::vector<Value> results;
  if (mask.at(0) != 0) {
    const Value scale = weight ? inverse * weight : inverse;
    const Value of_x = scale * inverse * of_weight * (-1 / count_of(x));
    const Value of_one = scale * of_bias * (-1 / count_of(x));
    const Value own =
        apply("aten::addcmul", {per_channel(of_one, x), gradient, per_channel(scale, x)});
    const Value centered = x - per_channel(mean, x);
    results.push_back(to(apply("aten::addcmul", {own, centered, per_channel(of_x, x)}), x.dtype()));
  }
  if (mask.at(1) != 0) results.push_back(of_weight);
  if (mask.at(2) != 0) results.push_back(of_bias);
  return results;
}

}  // namespace

Graph batch_norms_by_sums(const Graph& graph, const Marks& marks) {
  Copier copier(graph, graph.name());
  const auto read = [&](TensorId id) { return copier.value(id); };
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    const Op& op = graph.op(id);
    if (!marks.mixes_rows(id)) {
      copier.copy(op, read);
      continue;
    }
    const Args args = call_args(op, [&](int position) { return read(op.inputs[at(position)]); });
    const auto& by_sums = op.type == "aten::native_batch_norm" ? forward : backward;
    const std::vector<Value> results = copier.make(op, [&] { return by_sums(args); });
    for (std::size_t i = 0; i < results.size(); ++i) copier.set(op.outputs[i], results[i]);
  }
  return copier.build();
}

}  // namespace lowtide::slices
