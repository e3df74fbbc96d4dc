#include "builder/builder.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "builder/functions.h"
#include "support/throws.h"

namespace lowtide {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Tensor& tensor_of(Value value) {
  return value.builder().data().tensors[static_cast<std::size_t>(value.id())];
}

const Op& last_op(const Builder& b) { return b.data().ops.back(); }

TEST(Names, AreScopedNumberedAndExactForParameters) {
  Builder b("names");
  const Value x = b.input("x", {2, 3});
  {
    const Builder::Scope outer(b, "layer1");
    const Builder::Scope inner(b, "0");
    const Value w = b.parameter("weight", {3}, init::ones());
    EXPECT_EQ(tensor_of(w).name, "layer1.0.weight");
    EXPECT_EQ(tensor_of(x + w).name, "layer1.0.add");
    EXPECT_EQ(tensor_of(x + 1).name, "layer1.0.add_1");
  }
  EXPECT_EQ(tensor_of(x + x).name, "add");
  const auto parts = split(x, 1, 0);
  EXPECT_EQ(tensor_of(parts[1]).name, "split.1");
  EXPECT_EQ(last_op(b).name, "split");
}

TEST(Names, StayUniqueWhenGivenAndAutomaticOnesMeet) {
  Builder b("names");
  const Value x = b.input("neg", {2});
  const Value y = -x;
  EXPECT_EQ(tensor_of(y).name, "neg_1");
  b.set_name(y, "result");
  EXPECT_EQ(tensor_of(y).name, "result");
  EXPECT_THROWS_INPUT_ERROR(b.set_name(y, "neg"), HasSubstr("\"neg\" is taken"));
  EXPECT_THROWS_INPUT_ERROR(b.input("result", {1}), HasSubstr("\"result\" is taken"));
}

TEST(Residents, KnowTheirRoleTypeAndFirstValue) {
  Builder b("residents");
  const Value w = b.parameter("w", {4, 3}, init::uniform(-1, 2));
  const Value steps = b.resident("steps", {}, DType::f64, Role::optimizer_state, init::zeros());
  const Value x = b.input("x", {5}, DType::i64, Role::target);
  EXPECT_EQ(tensor_of(w).kind, Kind::resident);
  EXPECT_EQ(tensor_of(w).bytes, 48);
  EXPECT_EQ(tensor_of(w).init, (Initializer{Initializer::Kind::uniform, -1, 2}));
  EXPECT_EQ(tensor_of(steps).bytes, 8);
  EXPECT_EQ(tensor_of(x).role, Role::target);
  EXPECT_FALSE(tensor_of(x).init.has_value());
  EXPECT_THAT(b.parameters(), ElementsAre(w));
  EXPECT_THROWS_INPUT_ERROR(b.input("y", {2, -1}), HasSubstr("[2, -1]"));
}

TEST(Inputs, OfComplexTypesAreRefused) {
  for (DType dtype : {DType::c64, DType::c128}) {
    Builder b("complex");
    EXPECT_THROWS_INPUT_ERROR(b.input("z", {2}, dtype),
                              AllOf(HasSubstr("\"z\""), HasSubstr(name(dtype))));
    EXPECT_THAT(b.data().tensors, IsEmpty());
  }
}

TEST(Views, AliasTheStorageNotTheViewAndOwnNoBytes) {
  Builder b("views");
  const Value w = b.parameter("w", {2, 6}, init::zeros());
  const Value once = transpose(w, 0, 1);
  const Value twice = slice(once, 0, 1, 5, 2);
  EXPECT_EQ(tensor_of(twice).alias_of, w.id());
  EXPECT_EQ(tensor_of(twice).bytes, 0);
  EXPECT_EQ(twice.shape(), (Shape{2, 2}));
  EXPECT_EQ(tensor_of(twice).strides, (Shape{2, 6}));
  const Graph graph = b.build({twice});
  EXPECT_TRUE(graph.is_resident(twice.id()));
}

TEST(Ops, CarryPhaseRandomnessAndEffects) {
  Builder b("effects");
  const Value x = b.input("x", {2, 3});
  const Value mean = b.buffer("mean", {3}, init::zeros());
  const Value variance = b.buffer("variance", {3}, init::ones());
  batch_norm(x, {}, {}, mean, variance);
  EXPECT_THAT(last_op(b).mutates, ElementsAre(1, 2));  // weight and bias are no inputs
  EXPECT_TRUE(last_op(b).recomputable);
  b.set_phase(Phase::backward);
  dropout(x, 0.5);
  EXPECT_TRUE(last_op(b).random);
  EXPECT_EQ(last_op(b).phase, Phase::backward);
  EXPECT_THAT(b.call("aten::add_.Scalar", {mean, 1}), IsEmpty());
  EXPECT_FALSE(last_op(b).recomputable);
  EXPECT_THAT(last_op(b).mutates, ElementsAre(0));
}

TEST(Ops, MayWriteResidentTensorsOnly) {
  Builder b("effects");
  const Value x = -b.input("x", {2, 3});
  EXPECT_THROWS_INPUT_ERROR(b.call("aten::add_.Scalar", {x, 1}),
                            AllOf(HasSubstr("aten::add_.Scalar"), HasSubstr("\"neg\"")));
  EXPECT_EQ(b.data().ops.size(), 1U);
}

TEST(Roles, NameTheParameterOfAGradient) {
  Builder b("roles");
  const Value w = b.parameter("w", {2}, init::zeros());
  const Value gradient = -w;
  b.set_role(gradient, Role::gradient, w.id());
  EXPECT_EQ(tensor_of(gradient).role, Role::gradient);
  EXPECT_EQ(tensor_of(gradient).gradient_of, w.id());
}

class InPlacePermission : public ::testing::Test {
 protected:
  std::vector<InPlace> of(Value result) {
    const Graph graph = b.build({result});
    return graph.op(graph.producer(result.id())).inplace;
  }

  Builder b{"in place"};
  Value resident = b.input("resident", {4, 4});
  Value x = -resident;
};

TEST_F(InPlacePermission, GoesToTheOperandThatDiesThere) {
  const Value y = exp(x);
  const Value sum = x + y;
  EXPECT_THAT(of(sum), ElementsAre(InPlace{0, 0}));
  x* sum;
  EXPECT_THAT(of(sum), ElementsAre(InPlace{0, 1}));
}

TEST_F(InPlacePermission, IsChosenAmongAllThatFit) {
  const Value y = exp(x);
  x + y;
  EXPECT_THAT(last_op(b).inplace, ElementsAre(InPlace{0, 0}, InPlace{0, 1}));
}

TEST_F(InPlacePermission, HoldsForViewsOfAllOfTheMemory) {
  EXPECT_THAT(of(exp(reshape(x, {16}))), ElementsAre(InPlace{0, 0}));
  EXPECT_THAT(of(exp(transpose(x, 0, 1))), ElementsAre(InPlace{0, 0}));
}

TEST_F(InPlacePermission, IsDeniedForOtherLayoutsSizesAndTypes) {
  EXPECT_THAT(of(exp(resident)), IsEmpty());
  EXPECT_THAT(of(exp(slice(x, 0, 0, 2))), IsEmpty());
  EXPECT_THAT(of(gt(x, 0)), IsEmpty());
  EXPECT_THAT(of(resident + slice(x, 0, 0, 1)), IsEmpty());
  EXPECT_THAT(of(resident * transpose(x, 0, 1)), IsEmpty());
  EXPECT_THAT(of(softmax(x, 0)), IsEmpty());
}

TEST_F(InPlacePermission, IsDeniedWhenTheMemoryIsReadInAnotherOrderToo) {
  EXPECT_THAT(of(x + transpose(x, 0, 1)), IsEmpty());
  EXPECT_THAT(of(x + slice(x, 0, 0, 1)), IsEmpty());
  EXPECT_THAT(of(x * x), ElementsAre(InPlace{0, 0}));
}

TEST(Calls, NameTheNearestForAnUnknownOp) {
  Builder b("errors");
  const Value x = b.input("x", {2});
  EXPECT_THROWS_INPUT_ERROR(b.call("aten::sigmoyd", {x}),
                            AllOf(HasSubstr("\"aten::sigmoyd\""), HasSubstr("\"aten::sigmoid\"")));
}

TEST(Calls, RefuseTensorsThatAreEmptyOrOfAnotherGraph) {
  Builder a("one"), b("two");
  const Value x = a.input("x", {2});
  const Value y = b.input("y", {2});
  EXPECT_THROWS_INPUT_ERROR(x + y,
                            AllOf(HasSubstr("aten::add.Tensor"), HasSubstr("another graph")));
  EXPECT_THROWS_INPUT_ERROR(a.build({y}), HasSubstr("another graph"));
  EXPECT_THROWS_INPUT_ERROR(exp(Value()), HasSubstr("empty"));
  EXPECT_THROWS_INPUT_ERROR(x + Value(), HasSubstr("argument 1"));
  EXPECT_THROWS_INPUT_ERROR(cat({x, Value()}, 0), HasSubstr("empty"));
}

TEST(Calls, RefuseArgumentsOfTheWrongKind) {
  Builder b("errors");
  const Value x = b.input("x", {2, 2});
  EXPECT_THROWS_INPUT_ERROR(b.call("aten::exp", {1.5}), HasSubstr("argument 0 must be a tensor"));
  EXPECT_THROWS_INPUT_ERROR(b.call("aten::mm", {x}), HasSubstr("argument 1 must be a tensor"));
  EXPECT_THROWS_INPUT_ERROR(b.call("aten::permute", {x, 1.5}), HasSubstr("list of integers"));
  EXPECT_THROWS_INPUT_ERROR(b.call1("aten::split.Tensor", {x, 1}), HasSubstr("2 results"));
}

TEST(Build, KeepsEachOutputOnceAndLetsTheBuilderGoOn) {
  Builder b("graph");
  const Value x = -b.input("x", {2});
  const Graph first = b.build({x, x});
  EXPECT_THAT(first.outputs(), ElementsAre(x.id()));
  const Graph second = b.build({exp(x)});
  EXPECT_EQ(first.num_ops(), 1);
  EXPECT_EQ(second.num_ops(), 2);
  EXPECT_TRUE(second.executable());
}

TEST(Init, ScalesByTheFan) {
  EXPECT_DOUBLE_EQ(init::kaiming_normal({8, 3, 2, 2}).b, 0.25);           // sqrt(2 / (8 * 4))
  EXPECT_DOUBLE_EQ(init::fan_in_uniform({8, 4, 2, 2}).a, -0.25);          // 1 / sqrt(4 * 4)
  EXPECT_DOUBLE_EQ(init::fan_in_uniform({8, 4}).b, 0.5);
  EXPECT_THROWS_INPUT_ERROR(init::kaiming_normal({8}), HasSubstr("2 dimensions"));
}

}  // namespace
}  // namespace lowtide
