#include <gtest/gtest.h>

#include <set>

#include "autodiff/cases/activation.h"
#include "autodiff/cases/convolution.h"
#include "autodiff/cases/indexing.h"
#include "autodiff/cases/loss.h"
#include "autodiff/cases/matrix.h"
#include "autodiff/cases/normalization.h"
#include "autodiff/cases/pointwise.h"
#include "autodiff/cases/pooling.h"
#include "autodiff/cases/reduction.h"
#include "autodiff/cases/view.h"
#include "autodiff/gradient.h"
#include "autodiff/rule_program.h"

namespace lowtide::testing {
namespace {

void expect_close(const Tensors& ours, const Tensors& theirs, double tolerance, const char* what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(ours[i].sizes() == theirs[i].sizes()) << what << ' ' << i;
    EXPECT_TRUE(at::allclose(ours[i].to(at::kDouble), theirs[i].to(at::kDouble), tolerance,
                             tolerance))
        << what << ' ' << i << "\nours\n" << ours[i] << "\ntheirs\n" << theirs[i];
  }
}

void expect_equal(const Tensors& ours, const Tensors& theirs, const char* what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(at::equal(ours[i], theirs[i]))
        << what << ' ' << i << " differs by at most " << (ours[i] - theirs[i]).abs().max().item();
  }
}

double inner(const Tensors& a, const Tensors& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] * b[i]).sum().item().toDouble();
  return sum;
}

/// d/dh of `function` at data + h * direction, by central differences.
template <typename Function>
double slope(const Data& data, const Data& direction, Function function) {
  constexpr double kStep = 1e-6;
  const auto moved = [&](double by) {
    Data result = data;
    for (auto part : {&Data::leaves, &Data::seeds}) {
      for (std::size_t i = 0; i < (result.*part).size(); ++i) {
        if ((data.*part)[i].is_floating_point()) {
          (result.*part)[i] = (data.*part)[i] + by * (direction.*part)[i];
        }
      }
    }
    return function(result);
  };
  return (moved(kStep) - moved(-kStep)) / (2 * kStep);
}

/// Random directions for the leaves and the seeds.
Data draw_direction(const Data& data) {
  Data direction;
  for (const at::Tensor& t : data.leaves) {
    direction.leaves.push_back(at::randn_like(t.to(at::kDouble)));
  }
  for (const at::Tensor& t : data.seeds) direction.seeds.push_back(at::randn_like(t));
  return direction;
}

Tensors floating(const Tensors& directions, const Tensors& of) {
  Tensors result;
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (of[i].is_floating_point()) result.push_back(directions[i]);
  }
  return result;
}

void expect_slopes(const RuleCase& rule, const Program& p, const Interpreter& interpreter,
                   const Data& data, const Derivatives& ours) {
  constexpr double kTolerance = 2e-6;
  for (int trial = 0; trial < 3; ++trial) {
    at::manual_seed(100 + trial);
    const Data direction = draw_direction(data);
    Tensors along = floating(direction.leaves, data.leaves);
    along.insert(along.end(), direction.seeds.begin(), direction.seeds.end());
    // <output, seed> has the derivative <gradient, dx> + <output, dseed>.
    Tensors first = ours.first;
    first.insert(first.end(), ours.outputs.begin(), ours.outputs.end());
    const double by_first = inner(first, along);
    const double measured = slope(data, direction, [&](const Data& at) {
      return inner(run(interpreter, p, at).outputs, at.seeds);
    });
    EXPECT_NEAR(measured, by_first, kTolerance * (1 + std::abs(by_first))) << "first differences";
    if (!rule.second) continue;
    const double by_second = inner(ours.second, along);
    const double measured_second = slope(data, direction, [&](const Data& at) {
      return inner(run(interpreter, p, at).first, data.weights);
    });
    EXPECT_NEAR(measured_second, by_second, kTolerance * (1 + std::abs(by_second)))
        << "second differences";
  }
}

void check_f64(const RuleCase& rule) {
  Program p;
  write_program(rule, DType::f64, p);
  const Interpreter interpreter = testing::interpreter(p);
  const Data data = draw_data(rule, p, DType::f64);
  const Derivatives ours = run(interpreter, p, data);
  const Derivatives theirs = autograd(rule, data);
  expect_close(ours.outputs, theirs.outputs, 1e-12, "output");
  expect_close(ours.first, theirs.first, 1e-11, "gradient");
  if (!theirs.second.empty()) expect_close(ours.second, theirs.second, 1e-10, "second gradient");
  expect_slopes(rule, p, interpreter, data, ours);
}

void check_f32(const RuleCase& rule) {
  Program p;
  write_program(rule, DType::f32, p);
  const Data data = draw_data(rule, p, DType::f32);
  const Derivatives ours = run(interpreter(p), p, data);
  const Derivatives theirs = autograd(rule, data);
  if (rule.bitwise) {
    expect_equal(ours.first, theirs.first, "f32 gradient");
  } else {
    expect_close(ours.first, theirs.first, 1e-4, "f32 gradient");
  }
}

/// Compares the first and second derivatives of each case with LibTorch's autograd and with central
/// differences in f64, and the first ones in f32 bit by bit with autograd.
void check_cases(const std::vector<RuleCase>& cases) {
  for (const RuleCase& rule : cases) {
    SCOPED_TRACE(rule.name);
    try {
      check_f64(rule);
      check_f32(rule);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(Rules, PointwiseAgreeWithAutograd) { check_cases(pointwise::cases()); }
TEST(Rules, ActivationsAgreeWithAutograd) { check_cases(activation::cases()); }
TEST(Rules, ViewsAgreeWithAutograd) { check_cases(view::cases()); }
TEST(Rules, MatricesAgreeWithAutograd) { check_cases(matrix::cases()); }
TEST(Rules, ConvolutionsAgreeWithAutograd) { check_cases(convolution::cases()); }
TEST(Rules, PoolingAgreesWithAutograd) { check_cases(pooling::cases()); }
TEST(Rules, NormalizationAgreesWithAutograd) { check_cases(normalization::cases()); }
TEST(Rules, ReductionsAgreeWithAutograd) { check_cases(reduction::cases()); }
TEST(Rules, IndexingAgreesWithAutograd) { check_cases(indexing::cases()); }
TEST(Rules, LossesAgreeWithAutograd) { check_cases(loss::cases()); }

TEST(Rules, EachHasACase) {
  std::set<std::string> covered;
  for (auto family :
       {pointwise::cases, activation::cases, view::cases, matrix::cases, convolution::cases,
        pooling::cases, normalization::cases, reduction::cases, indexing::cases, loss::cases}) {
    for (const RuleCase& rule : family()) {
      Program p;
      write_program(rule, DType::f32, p);
      covered.merge(p.differentiated);
    }
  }
  for (const std::string& type : autodiff::differentiable_ops()) {
    EXPECT_TRUE(covered.contains(type)) << type << " has a rule but no case in tests/autodiff";
  }
}

}  // namespace
}  // namespace lowtide::testing
