#include "profile/synthetic_inputs.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "graph/extent.h"
#include "graph/marks.h"
#include "layout/layout.h"
#include "runtime/tensors.h"

namespace lowtide::profile {
namespace {

constexpr Bytes kTileBytes = Bytes{1} << 18;  ///< at most
constexpr std::int64_t kRun = 32;             ///< equal neighbours; divides the elements of a tile

std::vector<TensorId> distinct(const Op& op) {
  std::vector<TensorId> ids = op.inputs;
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

/// An op's argument of indices, and the dimension and argument that they index.
struct IndexRule {
  std::string_view type;
  std::size_t indices;
  std::size_t source;  ///< the indexed tensor, or the number that bounds the indices
  std::int64_t dim;    ///< of the source; kByArgument: given by argument 1; kPlane: the last two
};
constexpr std::int64_t kByArgument = 100;
constexpr std::int64_t kPlane = 101;

constexpr std::array kIndexRules = {
    IndexRule{"aten::embedding", 1, 0, 0},
    IndexRule{"aten::embedding_dense_backward", 1, 2, 0},
    IndexRule{"aten::nll_loss_forward", 1, 0, 1},
    IndexRule{"aten::nll_loss_backward", 2, 1, 1},
    IndexRule{"aten::nll_loss2d_forward", 1, 0, 1},
    IndexRule{"aten::nll_loss2d_backward", 2, 1, 1},
    IndexRule{"aten::gather", 2, 0, kByArgument},
    IndexRule{"aten::scatter_add", 2, 0, kByArgument},
    IndexRule{"aten::scatter.src", 2, 0, kByArgument},
    IndexRule{"aten::scatter.value", 2, 0, kByArgument},
    IndexRule{"aten::index_select", 2, 0, kByArgument},
    IndexRule{"aten::index_add", 2, 0, kByArgument},
    IndexRule{"aten::max_pool2d_with_indices_backward", 7, 1, kPlane},
    IndexRule{"aten::max_unpool2d", 1, 0, kPlane},
};

/// Matrix products by groups: argument 2 holds the end of each group.
/// All rows are in the last group: kernels that take memory for each group in turn take the most of
/// it then, and the work is the same. Without rows, the time would be that of an empty op.
constexpr std::array<std::string_view, 3> kGrouped = {"aten::_grouped_mm",
                                                      "transformers::grouped_mm_fallback",
                                                      "transformers::grouped_mm_fallback_backward"};
constexpr std::size_t kGroupEnds = 2;

/// Its argument says how often each element is repeated, so that the result has its size.
constexpr std::string_view kRepeats = "aten::repeat_interleave.Tensor";

/// Reductions of segments, whose lengths come to the size of what is reduced.
struct LengthsRule {
  std::string_view type;
  std::size_t lengths;
  std::size_t data;
};
constexpr std::array kLengthsRules = {
    LengthsRule{"aten::segment_reduce", 2, 0},
    LengthsRule{"aten::_segment_reduce_backward", 4, 2},
};

/// Ops whose mask chooses no more elements than another argument has, or, where this is no tensor,
/// than the result has.
struct ChoiceRule {
  std::string_view type;
  std::size_t source;
};
constexpr std::array kChoiceRules = {
    ChoiceRule{"aten::masked_scatter", 2},
    ChoiceRule{"aten::masked_scatter_backward", 2},
};
constexpr std::size_t kMask = 1;

/// The backward passes of attention, and where they are given the seed of their dropout; its offset
/// follows. A GPU's kernels read both on the host.
struct SeedRule {
  std::string_view type;
  std::size_t seed;
};
constexpr std::array kSeedRules = {
    SeedRule{"aten::_scaled_dot_product_efficient_attention_backward", 7},
};

/// Ops whose argument 1 must not hold zeros: integer divisors, row numbers from 1 on.
constexpr std::array<std::string_view, 5> kOnes = {"aten::div.Tensor_mode", "aten::floor_divide",
                                                   "aten::fmod.Tensor", "aten::remainder.Tensor",
                                                   "aten::linalg_lu_solve"};

const Tensor* tensor_argument(const Graph& graph, const Op& op, std::size_t index) {
  if (index >= op.args.size()) return nullptr;
  const auto* arg = std::get_if<TensorArg>(&op.args[index]);
  return arg == nullptr ? nullptr
                        : &graph.tensor(op.inputs[static_cast<std::size_t>(arg->position)]);
}

std::int64_t integer_argument(const Op& op, std::size_t index) {
  const auto* value = index < op.args.size() ? std::get_if<std::int64_t>(&op.args[index]) : nullptr;
  return value == nullptr ? 0 : *value;
}

/// One more than the largest valid index.
std::int64_t index_limit(const Graph& graph, const Op& op, const IndexRule& rule) {
  const Tensor* source = tensor_argument(graph, op, rule.source);
  if (source == nullptr) return std::max<std::int64_t>(1, integer_argument(op, rule.source));
  const auto rank = static_cast<std::int64_t>(source->shape.size());
  if (rank == 0) return 1;
  const auto size = [&](std::int64_t dim) {
    return source->shape[static_cast<std::size_t>(
        std::clamp<std::int64_t>(dim < 0 ? dim + rank : dim, 0, rank - 1))];
  };
  if (rule.dim == kPlane) return size(-1) * size(-2);
  return size(rule.dim == kByArgument ? integer_argument(op, 1) : rule.dim);
}

/// The bound of the indices in this input; nothing when it holds no indices.
std::optional<std::int64_t> limit_of(const Graph& graph, const Op& op, TensorId input) {
  for (const IndexRule& rule : kIndexRules) {
    if (rule.type == op.type && tensor_argument(graph, op, rule.indices) == &graph.tensor(input)) {
      return index_limit(graph, op, rule);
    }
  }
  return std::nullopt;
}

/// The value of integers in an input without indices.
std::int64_t plain_integer(const Graph& graph, const Op& op, TensorId input) {
  const bool is_one = std::ranges::count(kOnes, op.type) > 0 &&
                      tensor_argument(graph, op, 1) == &graph.tensor(input);
  return is_one ? 1 : 0;
}

/// What is divided into groups: the rows of a matrix that meets one matrix per group, the columns
/// of one that one matrix per group meets, and the inner dimension of a product of two matrices.
std::int64_t grouped_size(const std::vector<std::int64_t>& left,
                          const std::vector<std::int64_t>& right) {
  if (left.size() > right.size()) return right.back();
  return left.size() == right.size() ? left.back() : left.front();
}

/// What the numbers in this input come to, those of each line along its last dimension; nothing if
/// it holds no sizes of groups.
std::optional<std::int64_t> total_of(const Graph& graph, const Op& op, TensorId input) {
  const Tensor* tensor = &graph.tensor(input);
  if (std::ranges::count(kGrouped, op.type) > 0 &&
      tensor_argument(graph, op, kGroupEnds) == tensor) {
    return grouped_size(tensor_argument(graph, op, 0)->shape, tensor_argument(graph, op, 1)->shape);
  }
  if (op.type == kRepeats) return graph.tensor(op.outputs.at(0)).shape.front();
  for (const LengthsRule& rule : kLengthsRules) {
    if (rule.type == op.type && tensor_argument(graph, op, rule.lengths) == tensor) {
      return tensor_argument(graph, op, rule.data)->shape.at(tensor->shape.size() - 1);
    }
  }
  return std::nullopt;
}

/// One line of the sizes, or ends, of groups of which the last one has all.
at::Tensor all_in_the_last(const Tensor& tensor, std::int64_t total) {
  const std::int64_t groups = tensor.shape.back();
  at::Tensor line = at::zeros({groups}, runtime::scalar_type(tensor.dtype.value()));
  line.narrow(0, groups - 1, 1).fill_(total);
  return line;
}

std::int64_t element_count(const Tensor& tensor) {
  return element_bytes(tensor) / element_bytes(tensor.dtype.value());
}

/// How many elements a mask in this input may choose at most; nothing if it may choose all.
std::optional<std::int64_t> choice_of(const Graph& graph, const Op& op, TensorId input) {
  for (const ChoiceRule& rule : kChoiceRules) {
    if (rule.type == op.type && tensor_argument(graph, op, kMask) == &graph.tensor(input)) {
      const Tensor* source = tensor_argument(graph, op, rule.source);
      return element_count(source != nullptr ? *source : graph.tensor(op.outputs.at(0)));
    }
  }
  return std::nullopt;
}

/// Has a mask, of an op that broadcasts it to its first argument, choose that many elements: its
/// first ones in memory are ones. Where its elements have gaps between them it chooses fewer.
void choose(const Graph& graph, const Op& op, const at::Tensor& mask, std::int64_t count,
            std::byte* data, Bytes bytes, c10::Device device) {
  const std::int64_t broadcast = element_count(*tensor_argument(graph, op, 0));
  const std::int64_t own = std::min<std::int64_t>(bytes, mask.numel());
  const std::int64_t ones = std::min(own, broadcast == 0 ? 0 : count * own / broadcast);
  const auto options = at::TensorOptions().dtype(at::kBool).device(device);
  const at::Tensor all =
      at::for_blob(data, {bytes}).options(options).target_device(device).make_tensor();
  all.zero_();
  all.narrow(0, 0, ones).fill_(true);
}

bool is_read_on_host(const Graph& graph, const Op& op, TensorId input) {
  const Tensor& tensor = graph.tensor(input);
  return tensor.shape.empty() && std::ranges::any_of(kSeedRules, [&](const SeedRule& rule) {
           return rule.type == op.type && (tensor_argument(graph, op, rule.seed) == &tensor ||
                                           tensor_argument(graph, op, rule.seed + 1) == &tensor);
         });
}

at::Tensor uniform(std::int64_t count) {
  return at::rand({count}, at::detail::createCPUGenerator(1), at::TensorOptions(at::kDouble));
}

/// A small piece of random data of a dtype, repeated over the bytes of an input. Values and masks
/// come in runs, as after an activation or under a causal mask: on pure noise, kernels with a
/// branch per element would suffer mispredictions and be timed far too slow. It needs little
/// memory, since the budget of a step may leave no more.
at::Tensor tile(DType dtype, Bytes bytes, std::optional<std::int64_t> limit, std::int64_t integer) {
  const Bytes element = element_bytes(dtype);
  const std::int64_t count = align_up(std::min(bytes, kTileBytes), kRun * element) / element;
  if (limit) return uniform(count).mul_(*limit).floor_().to(runtime::scalar_type(dtype));
  const at::Tensor each = uniform(count / kRun);
  if (is_floating(dtype) || is_complex(dtype)) {
    return (each * 0.9 + 0.1).to(runtime::scalar_type(dtype)).repeat_interleave(kRun);
  }
  if (dtype == DType::boolean) return (each < 0.5).repeat_interleave(kRun);
  return at::full({count}, integer, runtime::scalar_type(dtype));
}

at::Tensor marked(at::Tensor tensor, Marks marks) {
  tensor._set_conj(marks.conjugate);
  tensor._set_neg(marks.negative);
  return tensor;
}

/// Writes the tile's bytes again and again, to memory of any device.
void repeat(const at::Tensor& tile, std::byte* data, Bytes bytes, c10::Device device) {
  const at::Tensor source = tile.contiguous().view(at::kByte);
  const auto options = at::TensorOptions().dtype(at::kByte).device(device);
  for (Bytes at = 0; at < bytes; at += source.numel()) {
    const Bytes size = std::min<Bytes>(source.numel(), bytes - at);
    at::for_blob(data + at, {size})
        .options(options)
        .target_device(device)
        .make_tensor()
        .copy_(source.narrow(0, 0, size));
  }
}

}  // namespace

Bytes synthetic_bytes(const Graph& graph, const Op& op, Bytes alignment) {
  Bytes bytes = 0;
  for (TensorId id : distinct(op)) {
    bytes += align_up(extent_bytes(graph.tensor(id)), alignment);
  }
  return bytes;
}

std::vector<at::Tensor> synthetic_inputs(const Graph& graph, const Op& op, std::byte* data,
                                         const device::ComputeDevice& device) {
  std::map<TensorId, at::Tensor> made;
  for (TensorId id : distinct(op)) {
    const Tensor& tensor = graph.tensor(id);
    if (is_read_on_host(graph, op, id)) {
      made[id] = at::zeros({}, runtime::scalar_type(tensor.dtype.value()));
      continue;
    }
    const Bytes bytes = extent_bytes(tensor);
    const std::optional<std::int64_t> total = total_of(graph, op, id);
    repeat(total && bytes > 0 ? all_in_the_last(tensor, *total)
                              : tile(tensor.dtype.value(), bytes, limit_of(graph, op, id),
                                     plain_integer(graph, op, id)),
           data, bytes, device.torch_device());
    made[id] =
        marked(runtime::tensor_over(data, tensor, device.torch_device()), marks_of(graph, id));
    if (const std::optional<std::int64_t> choice = choice_of(graph, op, id)) {
      choose(graph, op, made[id], *choice, data, bytes, device.torch_device());
    }
    data += align_up(bytes, device.alignment());
  }
  std::vector<at::Tensor> inputs;
  for (TensorId id : op.inputs) inputs.push_back(made.at(id));
  return inputs;
}

}  // namespace lowtide::profile
