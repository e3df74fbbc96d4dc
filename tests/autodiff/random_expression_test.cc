#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <random>

#include "autodiff/gradient.h"
#include "builder/functions.h"
#include "support/interpret.h"

// Random expressions, built both in Lowtide and in LibTorch: gradients must agree.
namespace lowtide::autodiff {
namespace {

using lowtide::testing::Interpreter;

/// The same tensor in both libraries. All are square matrices, so that any op fits.
struct Pair {
  Value ours;
  at::Tensor theirs;
};

constexpr std::int64_t kSize = 4;

Pair unary(const Pair& x, std::uint32_t choice) {
  switch (choice % 14) {
    case 0: return {sin(x.ours), at::sin(x.theirs)};
    case 1: return {tanh(x.ours), at::tanh(x.theirs)};
    case 2: return {sigmoid(x.ours), at::sigmoid(x.theirs)};
    case 3: return {gelu(x.ours), at::gelu(x.theirs)};
    case 4: return {silu(x.ours), at::silu(x.theirs)};
    case 5: return {exp(tanh(x.ours)), at::exp(at::tanh(x.theirs))};
    case 6: return {log(x.ours * x.ours + 1), at::log(x.theirs * x.theirs + 1)};
    case 7: return {softmax(x.ours, -1), at::softmax(x.theirs, -1)};
    case 8: return {transpose(x.ours, 0, 1), x.theirs.t()};
    case 9: return {x.ours - mean(x.ours, {0}, true), x.theirs - x.theirs.mean(0, true)};
    case 10: return {cat(chunk(x.ours, 2, 1), 0) * 0.5, at::cat(x.theirs.chunk(2, 1), 0) * 0.5};
    case 11: return {select(x.ours, 0, 1) + x.ours, x.theirs.select(0, 1) + x.theirs};
    case 12: return {log_softmax(x.ours, 0), at::log_softmax(x.theirs, 0)};
    default: return {sqrt(x.ours * x.ours + 1), at::sqrt(x.theirs * x.theirs + 1)};
  }
}

/// Case 10 of unary changes the shape; this restores any matrix of kSize^2 elements.
Pair square(const Pair& x) {
  return {reshape(x.ours, {kSize, kSize}), x.theirs.reshape({kSize, kSize})};
}

Pair binary(const Pair& a, const Pair& b, std::uint32_t choice) {
  switch (choice % 6) {
    case 0: return {a.ours + b.ours, a.theirs + b.theirs};
    case 1: return {a.ours * b.ours, a.theirs * b.theirs};
    case 2: return {a.ours - b.ours, a.theirs - b.theirs};
    case 3: return {a.ours / (b.ours * b.ours + 1), a.theirs / (b.theirs * b.theirs + 1)};
    case 4: return {mm(a.ours, b.ours) * 0.3, at::mm(a.theirs, b.theirs) * 0.3};
    default: return {sum(a.ours, {1}, true) * b.ours, a.theirs.sum(1, true) * b.theirs};
  }
}

struct Expression {
  Builder b{"random"};
  std::vector<Pair> leaves;
  Pair loss;
  std::map<TensorId, at::Tensor> residents;
};

void grow(Expression& e, std::uint32_t seed, int ops) {
  std::mt19937 random(seed);
  at::manual_seed(seed);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = at::randn({kSize, kSize}, at::kDouble);
    const Value value = e.b.input("x" + std::to_string(i), {kSize, kSize}, DType::f64);
    e.residents[value.id()] = x;
    e.leaves.push_back({value, x.clone().requires_grad_()});
  }
  std::vector<Pair> pool = e.leaves;
  const auto any = [&]() -> const Pair& { return pool[random() % pool.size()]; };
  for (int i = 0; i < ops; ++i) {
    const bool one = random() % 2;
    const Pair a = any(), b = any();
    const auto choice = static_cast<std::uint32_t>(random());
    pool.push_back(square(one ? unary(a, choice) : binary(a, b, choice)));
  }
  const Pair end = binary(pool.back(), any(), static_cast<std::uint32_t>(random()));
  e.loss = {sum(tanh(end.ours)), at::tanh(end.theirs).sum()};
}

std::vector<at::Tensor> autograd(const std::vector<at::Tensor>& outputs, const Expression& e,
                                 bool again) {
  std::vector<at::Tensor> inputs;
  for (const Pair& leaf : e.leaves) inputs.push_back(leaf.theirs);
  auto result = torch::autograd::grad(outputs, inputs, {}, true, again, /*allow_unused=*/true);
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!result[i].defined()) result[i] = at::zeros_like(inputs[i]);
  }
  return result;
}

void expect_agreement(std::uint32_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Expression e;
  grow(e, seed, 12);
  std::vector<Value> x;
  for (const Pair& leaf : e.leaves) x.push_back(leaf.ours);
  const std::vector<Value> g = gradient(e.loss.ours, x);
  // The Hessian's product with ones.
  Value total = sum(g[0]);
  for (std::size_t i = 1; i < g.size(); ++i) total = total + sum(g[i]);
  const std::vector<Value> h = gradient(total, x);
  std::vector<Value> outputs = g;
  outputs.insert(outputs.end(), h.begin(), h.end());
  const auto ours = Interpreter(e.b.build(outputs)).run(e.residents);

  auto theirs = autograd({e.loss.theirs}, e, true);
  at::Tensor their_total = theirs[0].sum() + theirs[1].sum() + theirs[2].sum();
  std::vector<at::Tensor> again(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) again[i] = at::zeros_like(theirs[i]);
  if (their_total.requires_grad()) again = autograd({their_total}, e, false);
  theirs.insert(theirs.end(), again.begin(), again.end());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor& mine = ours[static_cast<std::size_t>(outputs[i].id())];
    EXPECT_TRUE(at::allclose(mine, theirs[i], 1e-8, 1e-8))
        << "derivative " << i << "\nours\n" << mine << "\ntheirs\n" << theirs[i];
  }
}

TEST(RandomExpressions, HaveAutogradsGradientsAndHessians) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) expect_agreement(seed);
}

}  // namespace
}  // namespace lowtide::autodiff
