#include "graph/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "graph/random_graph.h"
#include "graph/samples.h"

namespace lowtide {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Bytes kMost = std::numeric_limits<Bytes>::max();

struct BadGraph {
  const char* name;
  void (*damage)(GraphData& data);
  const char* message;
};

class ValidateRefuses : public ::testing::TestWithParam<BadGraph> {};

TEST_P(ValidateRefuses, AndNamesPlaceAndRule) {
  GraphData data = sample();
  GetParam().damage(data);
  EXPECT_THAT([&] { validate(data); }, ThrowsMessage<InputError>(HasSubstr(GetParam().message)));
}

// Of sample(): 0 w, 1 x, 2 b residents, 3 a, 4 v (view of a), 5 c; ops 0 mul, 1 view, 2 norm.
const BadGraph kBadGraphs[] = {
    {"Unit", [](GraphData& d) { d.cost_unit = "hours"; }, "cost_unit is \"hours\""},
    {"SmallAlignment", [](GraphData& d) { d.alignment = 32; },
     "alignment is 32; it must be a power"},
    {"OddAlignment", [](GraphData& d) { d.alignment = 96; }, "alignment is 96; it must be a power"},
    {"NegativeBytes", [](GraphData& d) { d.tensors[3].bytes = -1; },
     "tensor 3 (\"a\") has -1 bytes"},
    {"OverflowingSum", [](GraphData& d) { d.tensors[3].bytes = d.tensors[5].bytes = 1LL << 52; },
     "exceed 2^53 at tensor 5 (\"c\")"},
    {"OverflowingWorkspace", [](GraphData& d) { d.ops[0].workspace_bytes = kMost; },
     "exceed 2^53 at op 0 (\"mul\")"},
    {"DanglingView", [](GraphData& d) { d.tensors[4].alias_of = 6; },
     "tensor 4 (\"v\") has alias_of 6"},
    {"NegativeView", [](GraphData& d) { d.tensors[4].alias_of = -2; },
     "tensor 4 (\"v\") has alias_of -2"},
    {"ViewOfItself", [](GraphData& d) { d.tensors[4].alias_of = 4; }, "is a view of itself"},
    {"ViewOfView",
     [](GraphData& d) {
       d.tensors[5].alias_of = 4;
       d.tensors[5].bytes = 0;
     },
     "tensor 5 (\"c\") is a view of tensor 4 (\"v\"), which is a view itself"},
    {"ViewWithBytes", [](GraphData& d) { d.tensors[4].bytes = 4; },
     "tensor 4 (\"v\") is a view and has 4 bytes"},
    {"ResidentView", [](GraphData& d) { d.tensors[4].kind = Kind::resident; },
     "tensor 4 (\"v\") is a resident view"},
    {"NegativeShape", [](GraphData& d) { d.tensors[3].shape = {2, -1}; },
     "negative size or stride: shape [2, -1]"},
    {"StridesWithoutShape", [](GraphData& d) { d.tensors[3].strides = {1}; },
     "1 strides for 0 dimensions"},
    {"OverflowingShape",
     [](GraphData& d) { d.tensors[3].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40}; },
     "whose bytes overflow 63 bits"},
    {"GradientOfNothing", [](GraphData& d) { d.tensors[3].gradient_of = 77; },
     "gradient_of 77, which is no tensor"},
    {"InitializerNan",
     [](GraphData& d) {
       d.tensors[0].init = Initializer{Initializer::Kind::constant,
                                       std::numeric_limits<double>::quiet_NaN(), 0};
     },
     "tensor 0 (\"w\") has an initializer with a number that is not finite"},
    {"DanglingInput", [](GraphData& d) { d.ops[0].inputs[0] = 6; },
     "op 0 (\"mul\") reads tensor 6, which does not exist: the graph has 6"},
    {"NegativeInput", [](GraphData& d) { d.ops[0].inputs[0] = -1; }, "reads tensor -1"},
    {"DanglingOutput", [](GraphData& d) { d.ops[0].outputs[0] = 99; }, "makes tensor 99"},
    {"NanCost",
     [](GraphData& d) { d.ops[1].cost = std::numeric_limits<double>::quiet_NaN(); },
     "op 1 (\"view\") has cost nan"},
    {"InfiniteCost", [](GraphData& d) { d.ops[1].cost = std::numeric_limits<double>::infinity(); },
     "op 1 (\"view\") has cost inf"},
    {"NegativeCost", [](GraphData& d) { d.ops[1].cost = -1; }, "op 1 (\"view\") has cost -1"},
    {"OverflowingCost", [](GraphData& d) { d.ops[0].cost = d.ops[1].cost = 1.5e308; },
     "costs of all ops together exceed 1e+100"},
    {"NegativeWorkspace", [](GraphData& d) { d.ops[2].workspace_bytes = -5; },
     "op 2 (\"norm\") has -5 bytes of workspace"},
    {"TwoProducers", [](GraphData& d) { d.ops[2].outputs = {5, 3}; },
     "tensor 3 (\"a\") has two producers: op 0 (\"mul\") and op 2 (\"norm\")"},
    {"MadeTwice", [](GraphData& d) { d.ops[2].outputs = {5, 5}; },
     "op 2 (\"norm\") makes tensor 5 (\"c\") twice"},
    {"MakesResident", [](GraphData& d) { d.ops[2].outputs = {5, 0}; },
     "op 2 (\"norm\") makes tensor 0 (\"w\"), which is resident"},
    {"NoProducer", [](GraphData& d) { d.ops[0].outputs = {}; },
     "tensor 3 (\"a\") is a value that no op makes"},
    {"Order", [](GraphData& d) { std::swap(d.ops[0], d.ops[1]); },
     "op 0 (\"view\") reads tensor 3 (\"a\") before op 1 (\"mul\") makes it"},
    {"Cycle", [](GraphData& d) { d.ops[0].inputs = {5}; },
     "form a cycle, each needing the one before: op 0 (\"mul\") -> op 1 (\"view\") -> "
     "op 2 (\"norm\") -> op 0 (\"mul\")"},
    {"ReadsItself", [](GraphData& d) { d.ops[0].inputs = {3}; },
     "form a cycle, each needing the one before: op 0 (\"mul\") -> op 0 (\"mul\")"},
    {"ViewBeforeStorage",
     [](GraphData& d) {
       d.ops[1].inputs = {0};
       std::swap(d.ops[0], d.ops[1]);
     },
     "op 0 (\"view\") makes tensor 4 (\"v\"), a view of tensor 3 (\"a\"), before op 1 (\"mul\")"},
    {"ViewBeforeStorageInOneOp",
     [](GraphData& d) {
       d.ops[0].outputs = {4, 3};
       d.ops[1].outputs = {};
     },
     "op 0 (\"mul\") makes tensor 4 (\"v\"), a view of tensor 3 (\"a\"), before"},
    {"ViewOfWhatIsNotRead", [](GraphData& d) { d.ops[1].inputs = {0}; },
     "op 1 (\"view\") makes tensor 4 (\"v\"), a view of tensor 3 (\"a\"), which it neither reads"},
    {"InPlaceOutput", [](GraphData& d) { d.ops[0].inplace = {{1, 0}}; },
     "op 0 (\"mul\") has the in-place pair [1, 0], but only 1 outputs and 2 inputs"},
    {"InPlaceInput", [](GraphData& d) { d.ops[0].inplace = {{0, 2}}; }, "in-place pair [0, 2]"},
    {"InPlaceTwice", [](GraphData& d) { d.ops[0].inplace = {{0, 0}, {0, 1}}; },
     "op 0 (\"mul\") has two in-place pairs for output 0"},
    {"InPlaceView", [](GraphData& d) { d.ops[1].inplace = {{0, 0}}; },
     "tensor 4 (\"v\") is a view and takes no bytes"},
    {"MutatesNothing", [](GraphData& d) { d.ops[2].mutates = {2}; },
     "op 2 (\"norm\") mutates its input 2, but has only 2"},
    {"MutatesTwice", [](GraphData& d) { d.ops[2].mutates = {1, 1}; },
     "op 2 (\"norm\") lists its input 1 twice"},
    {"MutatesValue", [](GraphData& d) { d.ops[2].mutates = {0}; },
     "op 2 (\"norm\") mutates tensor 4 (\"v\"), which is not resident"},
    {"ArgumentPosition", [](GraphData& d) { d.ops[0].args = {TensorArg{2}}; },
     "op 0 (\"mul\") has an argument that takes its input 2, but it has only 2"},
    {"ArgumentListPosition", [](GraphData& d) { d.ops[0].args = {TensorListArg{{0, 5}}}; },
     "takes its input 5"},
    {"NegativeAllocation", [](GraphData& d) { d.ops[0].allocations = {{-1, -1, 0}}; },
     "op 0 (\"mul\") has an allocation of -1 bytes"},
    {"AllocationOutput", [](GraphData& d) { d.ops[0].allocations = {{1, 1, 0}}; },
     "op 0 (\"mul\") has an allocation for its output 1, but has only 1"},
    {"ScratchOutside",
     [](GraphData& d) {
       d.ops[0].workspace_bytes = 64;
       d.ops[0].allocations = {{32, -1, 33}};
     },
     "op 0 (\"mul\") has scratch of 32 bytes at 33, beyond its workspace of 64"},
    {"ScratchOverflow",
     [](GraphData& d) { d.ops[0].allocations = {{kMost, -1, kMost}}; },
     "beyond its workspace of 0"},
    {"DanglingGraphOutput", [](GraphData& d) { d.outputs = {6}; },
     "the graph's outputs list tensor 6, which does not exist"},
    {"DoubleGraphOutput", [](GraphData& d) { d.outputs = {5, 5}; },
     "the graph's outputs list tensor 5 (\"c\") twice"},
};

INSTANTIATE_TEST_SUITE_P(All, ValidateRefuses, ::testing::ValuesIn(kBadGraphs),
                         [](const auto& info) { return info.param.name; });

TEST(Validate, AcceptsTheSampleAndEmptyGraphs) {
  EXPECT_NO_THROW(validate(sample()));
  EXPECT_NO_THROW(validate(GraphData{}));
}

TEST(Validate, AcceptsAShapeWithoutElements) {
  GraphData data = sample();
  data.tensors[3].shape = {std::int64_t{1} << 62, std::int64_t{1} << 62, 0};
  EXPECT_NO_THROW(validate(data));
}

TEST(Validate, AcceptsRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    EXPECT_NO_THROW(validate(RandomGraph(seed).draw())) << "seed " << seed;
  }
}

TEST(Validate, KeepsTheReportOfALongCycleShort) {
  GraphData data;
  constexpr int kOps = 1000;
  for (int i = 0; i < kOps; ++i) {
    data.tensors.emplace_back().name = "t" + std::to_string(i);
    Op& op = data.ops.emplace_back();
    op.name = "op" + std::to_string(i);
    op.inputs = {(i + kOps - 1) % kOps};
    op.outputs = {i};
  }
  EXPECT_THAT([&] { validate(data); },
              ThrowsMessage<InputError>(HasSubstr("992 more -> op 0 (\"op0\")")));
}

}  // namespace
}  // namespace lowtide
