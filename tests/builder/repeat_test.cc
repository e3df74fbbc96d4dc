#include "builder/repeat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "builder/functions.h"

namespace lowtide {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> op_names(const Builder& builder) {
  std::vector<std::string> names;
  for (const Op& op : builder.data().ops) names.push_back(op.name);
  return names;
}

TEST(Repeat, OpsReadTheReplacementsAndEachOther) {
  Builder builder("repeated");
  const Value x = builder.input("x", {4}), y = builder.input("y", {4});
  const Value doubled = x * 2.0;
  const Value sum = doubled + x;
  std::map<TensorId, TensorId> made;
  const Replacements replaced =
      repeat(builder, 0, 2, {{x.id(), y}}, "again",
             [&](TensorId original, Value again) { made[original] = again.id(); });
  const std::vector<Op>& ops = builder.data().ops;
  ASSERT_EQ(ops.size(), 4u);
  EXPECT_THAT(op_names(builder), ElementsAre("mul", "add", "again.mul", "again.add"));
  EXPECT_THAT(ops[2].inputs, ElementsAre(y.id()));
  EXPECT_THAT(ops[3].inputs, ElementsAre(ops[2].outputs[0], y.id()));
  EXPECT_EQ(replaced.at(sum.id()).id(), ops[3].outputs[0]);
  EXPECT_EQ(made.at(doubled.id()), ops[2].outputs[0]);
}

TEST(Repeat, AnOpOfReplacedResultsIsLeftOutAndPhasesAreKept) {
  Builder builder("repeated");
  const Value x = builder.input("x", {4});
  const Value left_out = relu(x);
  builder.set_phase(Phase::backward);
  const Value kept = cat({left_out, x}, 0);
  builder.set_phase(Phase::optimizer);
  repeat(builder, 0, 2, {{left_out.id(), x}}, "again", [](TensorId, Value) {});
  const std::vector<Op>& ops = builder.data().ops;
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(ops[2].phase, Phase::backward);
  EXPECT_THAT(ops[2].inputs, ElementsAre(x.id(), x.id()));
  EXPECT_EQ(builder.phase(), Phase::optimizer);
  EXPECT_EQ(kept.id(), ops[1].outputs[0]);
}

TEST(Repeat, WhatIsAppendedMeanwhileIsNotRepeated) {
  Builder builder("repeated");
  const Value x = builder.input("x", {4});
  Value sum = relu(x);
  repeat(builder, 0, 1, {}, "again", [&](TensorId, Value again) { sum = sum + again; });
  EXPECT_THAT(op_names(builder), ElementsAre("relu", "again.relu", "add"));
}

}  // namespace
}  // namespace lowtide
