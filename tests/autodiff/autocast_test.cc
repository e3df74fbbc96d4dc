#include "builder/autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

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
#include "autodiff/rule_program.h"
#include "ops/op_def.h"

// Autocast of a builder against at::autocast for the CPU.
namespace lowtide::testing {
namespace {

/// at::autocast for the CPU while it lives. Without its cache, which takes every leaf that needs a
/// gradient for a parameter.
class CpuAutocast {
 public:
  explicit CpuAutocast(DType dtype) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, torch_type(dtype));
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~CpuAutocast() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::set_autocast_cache_enabled(true);
  }
  CpuAutocast(const CpuAutocast&) = delete;
  CpuAutocast& operator=(const CpuAutocast&) = delete;
};

/// "add" for "aten::add.Tensor".
std::string function_of(const std::string& op) {
  const std::string name = op.substr(op.rfind(':') + 1);
  return name.substr(0, name.find('.'));
}

/// The functions of LibTorch that autocast for the CPU casts.
std::set<std::string> functions_with_casts() {
  std::set<std::string> functions;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto handle = c10::Dispatcher::singleton().findOp(op);
    if (!handle || !handle->hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU)) continue;
    if (op.name.starts_with("aten::")) functions.insert(function_of(op.name));
  }
  return functions;
}

TEST(AutocastRules, AreOfFunctionsThatLibTorchCasts) {
  const std::set<std::string> cast = functions_with_casts();
  for (const AutocastRule& rule : autocast_rules()) {
    EXPECT_TRUE(cast.contains(std::string(rule.function))) << rule.function;
  }
}

TEST(AutocastRules, CoverEveryOpOfTheLibraryThatLibTorchCasts) {
  const std::set<std::string> cast = functions_with_casts();
  for (const std::string& op : ops::op_names()) {
    const std::string function = function_of(op);
    EXPECT_EQ(autocast_rule(function).has_value(), cast.contains(function)) << op;
  }
}

using Family = std::vector<RuleCase> (*)();

constexpr Family kFamilies[] = {
    pointwise::cases, activation::cases, view::cases,     matrix::cases, convolution::cases,
    pooling::cases,   reduction::cases,  indexing::cases, loss::cases,   normalization::cases};

/// Both functions of a case under autocast; their derivatives are taken outside of it, as usual.
RuleCase under_autocast(const RuleCase& rule, DType lower) {
  RuleCase cast = rule;
  cast.second = false;
  cast.build = [build = rule.build, lower](const Values& x) {
    const Builder::Autocast autocast(x.front().builder(), lower);
    return build(x);
  };
  cast.torch = [torch = rule.torch, lower](const Tensors& x) {
    const CpuAutocast autocast(lower);
    return torch(x);
  };
  return cast;
}

void expect_same(const RuleCase& rule, const Tensors& ours, const Tensors& theirs,
                 const char* what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].scalar_type(), theirs[i].scalar_type()) << what << ' ' << i;
    const double tolerance = theirs[i].element_size() == 2 ? 0.02 : 1e-4;
    EXPECT_TRUE(rule.bitwise ? at::equal(ours[i], theirs[i])
                             : at::allclose(ours[i], theirs[i], tolerance, tolerance))
        << what << ' ' << i;
  }
}

void compare(const RuleCase& rule, DType operands) {
  Program p;
  write_program(rule, operands, p);
  const Data data = draw_data(rule, p, operands);
  const Derivatives ours = run(interpreter(p), p, data);
  const Derivatives theirs = autograd(rule, data);
  expect_same(rule, ours.outputs, theirs.outputs, "output");
  expect_same(rule, ours.first, theirs.first, "gradient");
}

/// Every case of the rules, with operands of this type.
void compare_all(Family family, DType operands) {
  for (const RuleCase& rule : family()) {
    SCOPED_TRACE(rule.name + " of " + std::string(name(operands)));
    try {
      compare(under_autocast(rule, DType::bf16), operands);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(Autocast, GivesEachFunctionTheTypesAndBitsOfLibTorch) {
  for (Family family : kFamilies) compare_all(family, DType::f32);
}

TEST(Autocast, GivesFunctionsOfHalfTypesTheTypesAndBitsOfLibTorch) {
  for (Family family : kFamilies) compare_all(family, DType::bf16);
}

}  // namespace
}  // namespace lowtide::testing
