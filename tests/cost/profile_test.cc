#include "cost/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "cost/roofline.h"

namespace lowtide::cost {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

Tensor make_tensor(std::string name, Kind kind, Shape shape, Shape strides = {}) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.kind = kind;
  tensor.dtype = DType::f32;
  tensor.bytes = 4;
  for (std::int64_t size : shape) tensor.bytes *= size;
  tensor.shape = std::move(shape);
  tensor.strides = std::move(strides);
  return tensor;
}

/// y = x.t() @ x, z = relu(y), by hand.
Graph product() {
  GraphData data;
  data.name = "product";
  data.tensors = {make_tensor("x", Kind::resident, {8, 3}),
                  make_tensor("xt", Kind::value, {3, 8}, {1, 3}),
                  make_tensor("y", Kind::value, {3, 3}), make_tensor("z", Kind::value, {3, 3})};
  data.tensors[1].alias_of = 0;
  data.tensors[1].bytes = 0;
  const auto add = [&](std::string type, std::vector<TensorId> in, TensorId out,
                       std::vector<Argument> args) {
    Op op;
    op.name = type;
    op.type = std::move(type);
    op.inputs = std::move(in);
    op.outputs = {out};
    op.args = std::move(args);
    data.ops.push_back(std::move(op));
  };
  add("aten::t", {0}, 1, {TensorArg{0}});
  add("aten::mm", {1, 0}, 2, {TensorArg{0}, TensorArg{1}});
  add("aten::relu", {2}, 3, {TensorArg{0}});
  data.outputs = {3};
  return Graph(std::move(data));
}

/// The same rate for every dtype.
DeviceRates rates(double flops, double bytes, double seconds_per_op) {
  DeviceRates device = default_rates();
  for (auto& [dtype, rate] : device.flops_per_second) rate = flops;
  device.bytes_per_second = bytes;
  device.seconds_per_op = seconds_per_op;
  device.seconds_per_view = 5e-7;
  return device;
}

Profile sample_profile(const Graph& graph) {
  Profile profile;
  profile.device = "Abacus, 2 threads";
  profile.ops[profile_key(graph, 1)] = {12.5, 128, {{36, 0, 0}, {100, -1, 0}, {8, -1, 64}}};
  return profile;
}

TEST(ProfileKey, ReadsLikeACall) {
  const Graph graph = product();
  EXPECT_EQ(profile_key(graph, 1), "aten::mm(f32[3,8]{1,3}, f32[8,3])");
  EXPECT_EQ(profile_key(graph, 2), "aten::relu(f32[3,3])");
}

TEST(ProfileKey, TellsArgumentsShapesDtypesAndStridesApart) {
  const Graph graph = product();
  const auto key_with = [&](auto change) {
    GraphData data = graph.data();
    change(data);
    return profile_key(Graph(std::move(data)), 1);
  };
  const std::string base = profile_key(graph, 1);
  EXPECT_NE(base, key_with([](GraphData& d) { d.tensors[1].strides = {8, 1}; }));
  EXPECT_NE(base, key_with([](GraphData& d) { d.tensors[0].dtype = DType::i32; }));
  EXPECT_NE(base, key_with([](GraphData& d) { d.tensors[0].shape = {24}; }));
  EXPECT_NE(base, key_with([](GraphData& d) { d.ops[1].args.emplace_back(1.5); }));
  EXPECT_NE(base, key_with([](GraphData& d) { d.ops[1].type = "aten::bmm"; }));
  EXPECT_EQ(base, key_with([](GraphData& d) { d.ops[1].name = "other"; }));
}

TEST(ProfileKey, WritesEveryKindOfArgument) {
  GraphData data = product().data();
  data.ops[2].args = {TensorListArg{{0, 0}},    NoneArg(),  true,
                      std::int64_t{3},          0.25,       std::vector<std::int64_t>{1, 2},
                      std::vector<double>{0.5}, DType::i64, std::string("tanh")};
  EXPECT_EQ(profile_key(Graph(std::move(data)), 2),
            "aten::relu([f32[3,3], f32[3,3]], None, true, 3, 0.25, [1,2], [0.5], i64, \"tanh\")");
}

TEST(Profile, SurvivesTheWayThroughAFile) {
  const Profile profile = sample_profile(product());
  const auto path = std::filesystem::path(testing::TempDir()) / "lowtide-profile-test.json";
  write_profile(profile, path);
  EXPECT_EQ(read_profile(path), profile);
  std::filesystem::remove(path);
  EXPECT_EQ(read_profile(path), Profile{});
}

TEST(Profile, KeepsAnAlignmentAndGivesItToGraphs) {
  const Graph graph = product();
  Profile profile = sample_profile(graph);
  EXPECT_EQ(priced(graph, profile).alignment(), kArenaAlignment);
  profile.alignment = 512;
  EXPECT_EQ(parse_profile(format_profile(profile)), profile);
  EXPECT_EQ(priced(graph, profile).alignment(), 512);
}

/// It may be any file of the user's, named by mistake.
TEST(Profile, LaunchesAreWrittenWhereThereAreAnyAndMayBeMissing) {
  Profile profile = sample_profile(product());
  EXPECT_THAT(format_profile(profile), Not(HasSubstr("launch")));
  EXPECT_EQ(parse_profile(format_profile(profile)).ops.begin()->second.launch_microseconds, 0);
  profile.ops.begin()->second.launch_microseconds = 4.5;
  EXPECT_EQ(parse_profile(format_profile(profile)), profile);
}

TEST(Profile, NeverSaysToDeleteWhatIsNoProfile) {
  const std::string good = format_profile(sample_profile(product()));
  for (const std::string& text :
       {std::string(), good.substr(0, good.size() / 2), std::string("[]"), std::string("null"),
        std::string("{\"format\": \"lowtide-graph\"}"), std::string("{\"format\": 3}"),
        std::string("\x88\0\0{\"", 5)}) {
    EXPECT_THAT(
        [&] { parse_profile(text, "p.json"); },
        ThrowsMessage<InputError>(AllOf(HasSubstr("p.json: not a lowtide-profile document"),
                                        HasSubstr("name another file"), Not(HasSubstr("delete")))));
  }
}

TEST(Profile, RefusesBrokenFilesAndSaysWhatToDo) {
  const std::string good = format_profile(sample_profile(product()));
  const auto refuses = [](const std::string& text, const std::string& part) {
    EXPECT_THAT([&] { parse_profile(text, "p.json"); },
                ThrowsMessage<InputError>(
                    AllOf(HasSubstr("p.json"), HasSubstr(part), HasSubstr("delete it"))));
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  refuses(replaced("\"version\": 1", "\"version\": 9"), "version 9");
  refuses(replaced("\"device\"", "\"devise\""), "key is missing");
  refuses(replaced("12.5", "-1"), "aten::mm");
  refuses(replaced("12.5", "\"fast\""), "aten::mm");
  refuses(replaced("128", "-128"), "negative");
  refuses(replaced("36", "-36"), "negative");
  refuses(replaced("36", "36.5"), "whole number");
  refuses(replaced("36", "true"), "whole number");
  refuses(replaced("36", "9223372036854775808"), "whole number");
  refuses(replaced("-1", "-4294967297"), "whole number");
  refuses(replaced("-1", "4294967296"), "whole number");
  refuses(replaced("\"version\": 1", "\"version\": 1, \"alignment\": 96"), "alignment 96");
  refuses(replaced("\"version\": 1", "\"version\": 1, \"alignment\": 32"), "alignment 32");
  refuses(replaced("\"version\": 1", "\"version\": 1, \"alignment\": 64.5"), "whole number");
  refuses(replaced("128", "1e300"), "whole number");
  refuses(replaced("12.5", "true"), "must be a number");
  refuses(replaced("\"version\": 1", "\"version\": 1e300"), "version 1e+300");
}

TEST(Profile, RefusesNumbersThatNoTypeHolds) {
  std::string text = format_profile(sample_profile(product()));
  text.replace(text.find("12.5"), 4, "1e999");
  EXPECT_THAT([&] { parse_profile(text, "p.json"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("p.json"), HasSubstr("too large"))));
}

TEST(Profile, EveryPrefixOfAFileIsRefusedOrWhole) {
  const std::string good = format_profile(sample_profile(product()));
  for (std::size_t n = 0; n + 2 < good.size(); ++n) {
    EXPECT_THROW(parse_profile(good.substr(0, n)), InputError) << n;
  }
}

TEST(Profile, NamesBothDevicesWhenTheyDiffer) {
  const Profile profile = sample_profile(product());
  EXPECT_NO_THROW(require_device(profile, "Abacus, 2 threads"));
  EXPECT_NO_THROW(require_device(Profile{}, "anything"));
  EXPECT_THAT([&] { require_device(profile, "Difference Engine", "p.json"); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("p.json"), HasSubstr("Abacus"), HasSubstr("Difference Engine"))));
}

TEST(Priced, TakesMeasurementsWhereThereAreAnyAndMarksTheRest) {
  const Graph bare = product();
  const Profile profile = sample_profile(bare);
  const Graph graph = priced(bare, profile);
  EXPECT_EQ(graph.cost_unit(), "us");
  EXPECT_EQ(graph.device(), "Abacus, 2 threads");
  EXPECT_EQ(graph.op(1).cost, 12.5);
  EXPECT_EQ(graph.op(1).workspace_bytes, 128);
  EXPECT_EQ(graph.op(1).allocations, profile.ops.begin()->second.allocations);
  EXPECT_FALSE(graph.op(1).cost_estimated);
  EXPECT_TRUE(graph.op(2).cost_estimated);
  EXPECT_EQ(graph.op(2).cost, roofline_microseconds(bare, 2, default_rates()));
}

TEST(Roofline, TakesTheLargerOfArithmeticAndTrafficPlusDispatch) {
  const Graph graph = product();
  // relu reads and writes 36 bytes and computes 9 elements.
  EXPECT_DOUBLE_EQ(roofline_microseconds(graph, 2, rates(1e9, 72e6, 1e-6)), 1 + 1);
  EXPECT_DOUBLE_EQ(roofline_microseconds(graph, 2, rates(9e6, 1e12, 2e-6)), 1 + 2);
  EXPECT_DOUBLE_EQ(roofline_microseconds(graph, 0, rates(1e9, 1e9, 2e-6)), 0.5);
}

TEST(Roofline, CountsTheElementsOfAnOpWhoseShapesDoNotFit) {
  GraphData data = product().data();
  data.tensors[0].shape = {};
  const Graph graph(std::move(data));
  EXPECT_DOUBLE_EQ(roofline_microseconds(graph, 1, rates(9e6, 1e12, 2e-6)), 1 + 2);
}

TEST(Roofline, PricesAWholeGraphAsEstimates) {
  const Graph graph = roofline_priced(product());
  for (const Op& op : graph.ops()) {
    EXPECT_GT(op.cost, 0);
    EXPECT_TRUE(op.cost_estimated);
  }
}

}  // namespace
}  // namespace lowtide::cost
