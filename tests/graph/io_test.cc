#include "graph/io.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "graph/random_graph.h"
#include "graph/samples.h"

namespace lowtide {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;
using Json = nlohmann::ordered_json;

// ---- Round trips ------------------------------------------------------------------------------

void expect_same(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.alias_of, b.alias_of);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.strides, b.strides);
  EXPECT_EQ(a.role, b.role);
  EXPECT_EQ(a.init, b.init);
  EXPECT_EQ(a.gradient_of, b.gradient_of);
  EXPECT_EQ(a.extra, b.extra);
}

void expect_same(const Op& a, const Op& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.outputs, b.outputs);
  EXPECT_EQ(a.cost, b.cost);
  EXPECT_EQ(a.cost_estimated, b.cost_estimated);
  EXPECT_EQ(a.workspace_bytes, b.workspace_bytes);
  EXPECT_EQ(a.phase, b.phase);
  EXPECT_EQ(a.recomputable, b.recomputable);
  EXPECT_EQ(a.random, b.random);
  EXPECT_EQ(a.inplace, b.inplace);
  EXPECT_EQ(a.mutates, b.mutates);
  EXPECT_EQ(a.args, b.args);
  EXPECT_EQ(a.allocations, b.allocations);
  EXPECT_EQ(a.extra, b.extra);
}

void expect_same(const GraphData& a, const GraphData& b) {
  EXPECT_EQ(a.after_bytes, b.after_bytes);
  EXPECT_EQ(a.alignment, b.alignment);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.cost_unit, b.cost_unit);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.outputs, b.outputs);
  EXPECT_EQ(a.extra, b.extra);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  ASSERT_EQ(a.ops.size(), b.ops.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) expect_same(a.tensors[i], b.tensors[i]);
  for (std::size_t i = 0; i < a.ops.size(); ++i) expect_same(a.ops[i], b.ops[i]);
}

TEST(GraphIo, RoundTripsRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    GraphData drawn = RandomGraph(seed).draw();
    drawn.after_bytes = static_cast<Bytes>(seed % 3 * 1000);
    drawn.alignment = kArenaAlignment << (seed % 4);
    const std::string text = format_graph(Graph(drawn));
    const Graph read = parse_graph(text);
    expect_same(read.data(), drawn);
    EXPECT_EQ(format_graph(read), text);
    if (::testing::Test::HasFailure()) break;
  }
}

TEST(GraphIo, KeepsNotANumber) {
  GraphData data = sample();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  data.ops[0].args = {nan, std::vector<double>{nan}};
  const Graph read = parse_graph(format_graph(Graph(data)));
  EXPECT_TRUE(std::isnan(std::get<double>(read.op(0).args[0])));
  EXPECT_TRUE(std::isnan(std::get<std::vector<double>>(read.op(0).args[1])[0]));
}

TEST(GraphIo, WritesNamesThatAreNoUtf8) {
  GraphData data = sample();
  data.tensors[0].name = "w\xff";
  EXPECT_EQ(parse_graph(format_graph(Graph(data))).tensor(0).name, "w\xef\xbf\xbd");
}

TEST(GraphIo, WritesAFileThatReadsBack) {
  const fs::path path =
      fs::temp_directory_path() / fmt::format("lowtide-graph-{}.json", ::getpid());
  write_graph(Graph(sample()), path);
  expect_same(read_graph(path).data(), sample());
  fs::remove(path);
}

class DataGraph : public ::testing::TestWithParam<fs::path> {};

TEST_P(DataGraph, LoadsAndRoundTrips) {
  const Graph graph = read_graph(GetParam());
  EXPECT_EQ(graph.name(), GetParam().stem());
  EXPECT_GT(graph.num_ops(), 0);
  const Json source = Json::parse(read_file(GetParam()));
  const Json written = Json::parse(format_graph(graph));
  ASSERT_EQ(source["tensors"].size(), written["tensors"].size());
  ASSERT_EQ(source["ops"].size(), written["ops"].size());
  EXPECT_EQ(source["outputs"], written["outputs"]);
  for (std::size_t i = 0; i < source["ops"].size(); ++i) {
    for (const auto& [key, value] : source["ops"][i].items()) {
      // Default values that a file spells out are not written again.
      const bool dropped = (key == "workspace_bytes" && value == 0);
      if (!dropped) {
        ASSERT_EQ(written["ops"][i][key], value) << "op " << i << " " << key;
      }
    }
  }
}

std::vector<fs::path> data_graphs() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(LOWTIDE_SOURCE_DIR "/data/graphs")) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

INSTANTIATE_TEST_SUITE_P(All, DataGraph, ::testing::ValuesIn(data_graphs()),
                         [](const auto& info) {
                           std::string name = info.param.stem();
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// ---- What a file may say in more than one way -------------------------------------------------

/// sample() as a JSON document, to be damaged.
Json document() { return Json::parse(format_graph(Graph(sample()))); }

TEST(GraphIo, ReadsPyTorchsNames) {
  Json json = document();
  json["tensors"][0]["dtype"] = "float32";
  json["tensors"][0]["role"] = "param";
  const Graph graph = parse_graph(json.dump());
  EXPECT_EQ(graph.tensor(0).dtype, DType::f32);
  EXPECT_EQ(graph.tensor(0).role, Role::parameter);
  EXPECT_THAT(format_graph(graph), HasSubstr("\"role\":\"parameter\""));
}

TEST(GraphIo, TakesNullForAbsent) {
  Json json = document();
  json["tensors"][0]["alias_of"] = nullptr;
  json["tensors"][0]["dtype"] = nullptr;
  json["ops"][0]["inplace"] = nullptr;
  EXPECT_NO_THROW(parse_graph(json.dump()));
}

TEST(GraphIo, TakesCostsForMeasuredUnlessTheySayOtherwise) {
  Json json = document();
  json["ops"][1]["cost_estimated"] = true;
  const Graph graph = parse_graph(json.dump());
  EXPECT_FALSE(graph.op(0).cost_estimated);
  EXPECT_TRUE(graph.op(1).cost_estimated);
}

TEST(GraphIo, KeepsWhatItDoesNotKnow) {
  Json json = document();
  json["made_by"] = {{"tool", "x"}, {"versions", {1, 2}}};
  json["tensors"][0]["dtype"] = "complex32";
  json["tensors"][0]["role"] = "activation";
  json["tensors"][1]["color"] = "red";
  json["ops"][0]["line"] = 18446744073709551615U;
  const Graph graph = parse_graph(json.dump());
  EXPECT_EQ(graph.tensor(0).dtype, std::nullopt);
  const Json written = Json::parse(format_graph(graph));
  EXPECT_EQ(written["made_by"], json["made_by"]);
  EXPECT_EQ(written["tensors"][0]["dtype"], "complex32");
  EXPECT_EQ(written["tensors"][0]["role"], "activation");
  EXPECT_EQ(written["tensors"][1]["color"], "red");
  EXPECT_EQ(written["ops"][0]["line"], 18446744073709551615U);
}

TEST(GraphIo, TakesTheKeysInAnyOrder) {
  Json reversed;
  const Json json = document();
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) reversed[*key] = json[*key];
  expect_same(parse_graph(reversed.dump()).data(), sample());
}

// ---- What is refused --------------------------------------------------------------------------

struct BadText {
  const char* name;
  void (*damage)(Json& json);
  const char* message;
};

class GraphIoRefuses : public ::testing::TestWithParam<BadText> {};

TEST_P(GraphIoRefuses, AndNamesFilePlaceAndRule) {
  Json json = document();
  GetParam().damage(json);
  EXPECT_THAT(
      [&] { parse_graph(json.dump(), "some.json"); },
      ThrowsMessage<InputError>(AllOf(StartsWith("some.json: "), HasSubstr(GetParam().message))));
}

const BadText kBadTexts[] = {
    {"Format", [](Json& j) { j["format"] = "lowtide-plan"; },
     "\"format\" must be \"lowtide-graph\", not \"lowtide-plan\""},
    {"NoFormat", [](Json& j) { j.erase("format"); }, "the key \"format\" is missing"},
    {"Version", [](Json& j) { j["version"] = 2; },
     "\"version\" is 2; this program reads version 1"},
    {"VersionText", [](Json& j) { j["version"] = "1"; }, "must be a whole number, not \"1\""},
    {"NoTensors", [](Json& j) { j.erase("tensors"); }, "the key \"tensors\" is missing"},
    {"NoOps", [](Json& j) { j.erase("ops"); }, "the key \"ops\" is missing"},
    {"NoOutputs", [](Json& j) { j.erase("outputs"); }, "the key \"outputs\" is missing"},
    {"OpsObject", [](Json& j) { j["ops"] = Json::object(); }, "\"ops\" must be a list"},
    {"TensorNumber", [](Json& j) { j["tensors"][1] = 3; },
     "tensor 1: must be an object {...}, not 3"},
    {"NoBytes", [](Json& j) { j["tensors"][1].erase("bytes"); },
     "tensor 1 (\"x\"): the key \"bytes\" is missing"},
    {"NullBytes", [](Json& j) { j["tensors"][1]["bytes"] = nullptr; },
     "tensor 1 (\"x\"): \"bytes\" must be a whole number, not null"},
    {"FractionBytes", [](Json& j) { j["tensors"][1]["bytes"] = 1.5; },
     "tensor 1 (\"x\"): \"bytes\" must be a whole number, not 1.5"},
    {"FloatBytes", [](Json& j) { j["tensors"][1]["bytes"] = 16.0; }, "must be a whole number"},
    {"HugeBytes", [](Json& j) { j["tensors"][1]["bytes"] = 9223372036854775808U; },
     "tensor 1 (\"x\"): \"bytes\" must be a whole number below 2^63"},
    {"NegativeBytes", [](Json& j) { j["tensors"][1]["bytes"] = -4; },
     "tensor 1 (\"x\") has -4 bytes"},
    {"Kind", [](Json& j) { j["tensors"][1]["kind"] = "residnet"; },
     "\"kind\" must be \"value\" or \"resident\", not \"residnet\""},
    {"NegativeAlias", [](Json& j) { j["tensors"][4]["alias_of"] = -1; },
     "tensor 4 (\"v\"): \"alias_of\" must be an index (0, 1, 2, ...), not -1"},
    {"Initializer", [](Json& j) { j["tensors"][0]["init"] = {"gauss", 0, 1}; },
     "\"init\" has the unknown initializer \"gauss\"; known are: zeros"},
    {"InitializerNumbers", [](Json& j) { j["tensors"][0]["init"] = {"normal", 0}; },
     "\"init\" must give \"normal\" 2 numbers, not 1"},
    {"InitializerEmpty", [](Json& j) { j["tensors"][0]["init"] = Json::array(); },
     "\"init\" must be a list that starts with a name"},
    {"NoOpName", [](Json& j) { j["ops"][1].erase("name"); }, "op 1: the key \"name\" is missing"},
    {"NoCost", [](Json& j) { j["ops"][1].erase("cost"); },
     "op 1 (\"view\"): the key \"cost\" is missing"},
    {"CostText", [](Json& j) { j["ops"][1]["cost"] = "NaN"; },
     "op 1 (\"view\"): \"cost\" must be a number, not \"NaN\""},
    {"Phase", [](Json& j) { j["ops"][1]["phase"] = "sideways"; },
     "\"phase\" must be \"forward\", \"backward\" or \"optimizer\""},
    {"FloatIndex", [](Json& j) { j["ops"][1]["inputs"] = {3.0}; },
     "op 1 (\"view\"): \"inputs\" must be an index"},
    {"DanglingIndex", [](Json& j) { j["ops"][1]["inputs"] = {33}; },
     "op 1 (\"view\") reads tensor 33, which does not exist"},
    {"InPlace", [](Json& j) { j["ops"][0]["inplace"] = {{0, 0, 0}}; },
     "\"inplace\" must be a list of [output position, input position]"},
    {"Allocations", [](Json& j) { j["ops"][0]["allocations"] = {{4, -2, 0}}; },
     "\"allocations\" must be a list of [bytes, output position or -1, offset]"},
    {"ArgumentTag", [](Json& j) { j["ops"][0]["args"] = {{{"scalar", 1}}}; },
     "\"args\" has an argument with the unknown tag \"scalar\""},
    {"ArgumentTags", [](Json& j) { j["ops"][0]["args"] = {{{"tensor", 1}, {"float", 1}}}; },
     "\"args\" has an argument object with other than one key"},
    {"ArgumentDtype", [](Json& j) { j["ops"][0]["args"] = {{{"dtype", "f12"}}}; },
     "unknown dtype \"f12\""},
    {"ArgumentFloat", [](Json& j) { j["ops"][0]["args"] = {{{"float", "huge"}}}; },
     "must be a number, \"inf\", \"-inf\" or \"nan\", not \"huge\""},
    {"ArgumentComplex", [](Json& j) { j["ops"][0]["args"] = {{{"complex", {1.0}}}}; },
     "has a complex argument that is no list of [real part, imaginary part]"},
    {"ArgumentInteger", [](Json& j) { j["ops"][0]["args"] = {18446744073709551615U}; },
     "below 2^63"},
    {"Cycle", [](Json& j) { j["ops"][0]["inputs"] = {5}; }, "the ops form a cycle"},
};

INSTANTIATE_TEST_SUITE_P(All, GraphIoRefuses, ::testing::ValuesIn(kBadTexts),
                         [](const auto& info) { return info.param.name; });

TEST(GraphIo, RefusesEveryTruncation) {
  const std::string text = format_graph(Graph(sample()));
  const std::size_t end = text.rfind('}');
  for (std::size_t length = 0; length <= end; ++length) {
    EXPECT_THROW(parse_graph(text.substr(0, length)), InputError) << "cut at " << length;
  }
  EXPECT_NO_THROW(parse_graph(text.substr(0, end + 1)));
}

TEST(GraphIo, RefusesOrReadsEveryDamagedByte) {
  const std::string text = format_graph(Graph(sample()));
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (char c : {'\0', '[', '}', '"', '-', '9', '\xff'}) {
      std::string damaged = text;
      damaged[i] = c;
      try {
        parse_graph(damaged);
      } catch (const InputError& error) {
        EXPECT_THAT(error.what(), StartsWith("graph: "));
      }
    }
  }
}

TEST(GraphIo, RefusesKeysThatAppearTwice) {
  std::string text = format_graph(Graph(sample()));
  text.insert(text.find("\"name\":\"mul\""), "\"cost\":1,");
  EXPECT_THAT([&] { parse_graph(text); },
              ThrowsMessage<InputError>(HasSubstr("the key \"cost\" appears twice")));
}

TEST(GraphIo, NamesFilesThatCannotBeRead) {
  EXPECT_THAT([] { read_graph("/no/such/file.json"); },
              ThrowsMessage<InputError>(HasSubstr("/no/such/file.json: No such file")));
  EXPECT_THAT([] { read_graph("/tmp"); },
              ThrowsMessage<InputError>(HasSubstr("/tmp: Is a directory")));
  EXPECT_THAT([] { read_graph("/dev/null"); },
              ThrowsMessage<InputError>(HasSubstr("/dev/null: the file is empty")));
}

}  // namespace
}  // namespace lowtide
