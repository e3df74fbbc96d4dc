#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/random_graph.h"
#include "graph/samples.h"

namespace lowtide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Graph, KnowsStoragesAndViews) {
  const Graph graph(sample());
  EXPECT_EQ(graph.storage(4), 3);
  EXPECT_EQ(graph.storage(3), 3);
  EXPECT_THAT(graph.views(3), ElementsAre(4));
  EXPECT_THAT(graph.views(5), IsEmpty());
  EXPECT_TRUE(graph.is_view_op(1));
  EXPECT_FALSE(graph.is_view_op(0));
  GraphData writing = sample();
  writing.ops[1].inputs = {3, 2};
  writing.ops[1].mutates = {1};
  EXPECT_FALSE(Graph(writing).is_view_op(1));
  EXPECT_TRUE(graph.is_resident(0));
  EXPECT_FALSE(graph.is_resident(4));
  EXPECT_EQ(graph.resident_bytes(), 40);
}

TEST(Graph, KnowsProducersAndReaders) {
  const Graph graph(sample());
  EXPECT_EQ(graph.producer(0), kNone);
  EXPECT_EQ(graph.producer(4), 1);
  EXPECT_THAT(graph.readers(3), ElementsAre(1));
  EXPECT_THAT(graph.readers(4), ElementsAre(2));
  EXPECT_THAT(graph.readers(5), IsEmpty());
}

TEST(Graph, ListsAReaderOnceThoughItReadsTwice) {
  GraphData data = sample();
  data.ops[0].inputs = {0, 0};
  EXPECT_THAT(Graph(data).readers(0), ElementsAre(0));
}

TEST(Graph, IsExecutableWhenEveryOpHasArguments) {
  GraphData data = sample();
  EXPECT_FALSE(Graph(data).executable());
  for (Op& op : data.ops) op.args = {TensorArg{0}};
  EXPECT_TRUE(Graph(data).executable());
}

/// By the definition, from the list of ops: the first op other than `id`, listed after it, that
/// writes a storage that `id` reads. A view op reads none.
OpId slow_expiry(const Graph& graph, OpId id) {
  if (graph.is_view_op(id)) return graph.num_ops();
  for (OpId writer = id + 1; writer < graph.num_ops(); ++writer) {
    for (int position : graph.op(writer).mutates) {
      const TensorId written = graph.op(writer).inputs[static_cast<std::size_t>(position)];
      for (TensorId read : graph.op(id).inputs) {
        if (graph.storage(read) == graph.storage(written)) return writer;
      }
    }
  }
  return graph.num_ops();
}

TEST(Graph, TellsWhenAnOpMayNoLongerRun) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Graph graph(RandomGraph(seed).draw());
    for (OpId id = 0; id < graph.num_ops(); ++id) {
      EXPECT_EQ(graph.expires(id), slow_expiry(graph, id)) << "seed " << seed << " op " << id;
    }
  }
}

TEST(DType, NamesReadBack) {
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("float32"), DType::f32);
  EXPECT_EQ(parse_dtype("torch.float32"), DType::f32);
  EXPECT_EQ(parse_dtype("float"), DType::f32);
  EXPECT_EQ(parse_dtype("double"), DType::f64);
  EXPECT_EQ(parse_dtype("bfloat16"), DType::bf16);
  EXPECT_EQ(parse_dtype("long"), DType::i64);
  EXPECT_EQ(parse_dtype("torch.complex64"), DType::c64);
  EXPECT_EQ(parse_dtype("cdouble"), DType::c128);
  EXPECT_EQ(parse_dtype("complex32"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(DType, HasPyTorchsSizes) {
  EXPECT_EQ(element_bytes(DType::f64), 8);
  EXPECT_EQ(element_bytes(DType::bf16), 2);
  EXPECT_EQ(element_bytes(DType::c64), 8);
  EXPECT_EQ(element_bytes(DType::boolean), 1);
  EXPECT_TRUE(is_floating(DType::f16));
  EXPECT_FALSE(is_floating(DType::u8));
  EXPECT_FALSE(is_floating(DType::c128));
  EXPECT_TRUE(is_complex(DType::c128));
  EXPECT_FALSE(is_complex(DType::f64));
}

}  // namespace
}  // namespace lowtide
