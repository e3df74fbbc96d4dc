#include "parallel/cluster/cluster_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "parallel/cluster/collectives.h"
#include "parallel/some_clusters.h"
#include "support/throws.h"

namespace lowtide::testing {
namespace {

using parallel::Cluster;
using parallel::Group;
using parallel::parse_cluster;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kLinks =
    R"("within_node": {"bytes_per_second": 3e11, "seconds_per_message": 5e-6},
       "between_nodes": {"bytes_per_second": 2.5e10})";

std::string document(const std::string& nodes, const std::string& links = kLinks,
                     const std::string& more = "") {
  return R"({"format": "lowtide-cluster", "version": 1, "devices_per_node": 8, "nodes": )" + nodes +
         (links.empty() ? "" : ", " + links) + more + "}";
}

TEST(ClusterFormat, ReadsKnownDevicesAndOthers) {
  const Cluster cluster = parse_cluster(document(
      R"([{"count": 2, "device": "a100", "efficiency": 0.5, "reserved_bytes": 1000},
          {"count": 1, "memory_bytes": 123, "flops_per_second": {"f32": 1e12, "bf16": 4e12},
           "bytes_per_second": 1e11, "seconds_per_op": 1e-6}])",
      kLinks, R"(, "name": "mixed")"));
  EXPECT_EQ(cluster.name, "mixed");
  EXPECT_EQ(cluster.ranks(), 24);
  const cost::DeviceRates& known = cost::find_device("a100");
  EXPECT_EQ(cluster.kinds[0].memory_bytes, known.memory_bytes - 1000);
  EXPECT_DOUBLE_EQ(cluster.kinds[0].device.flops(DType::bf16), known.flops(DType::bf16) / 2);
  EXPECT_DOUBLE_EQ(cluster.kinds[0].device.bytes_per_second, known.bytes_per_second);
  EXPECT_EQ(cluster.kinds[1].memory_bytes, 123);
  EXPECT_DOUBLE_EQ(cluster.kinds[1].device.flops(DType::bf16), 4e12);
  EXPECT_DOUBLE_EQ(cluster.kinds[1].device.flops(DType::f16), 1e12);
  EXPECT_DOUBLE_EQ(cluster.within_node.seconds_per_message, 5e-6);
  EXPECT_DOUBLE_EQ(cluster.between_nodes.bytes_per_second, 2.5e10);
}

TEST(ClusterFormat, NeedsNoLinkWhereNothingIsOnItsOtherEnd) {
  const Cluster cluster = parse_cluster(
      R"({"format": "lowtide-cluster", "version": 1, "devices_per_node": 1,
          "nodes": [{"count": 1, "device": "h100"}]})");
  EXPECT_EQ(cluster.ranks(), 1);
}

TEST(ClusterFormat, RefusesWhatItCannotMean) {
  const std::string good = R"([{"count": 2, "device": "a100"}])";
  const std::pair<std::string, std::string> cases[] = {
      {"", "empty"},
      {"[]", "object"},
      {"{}", "\"format\" is missing"},
      {R"({"format": "lowtide-graph"})", "lowtide-cluster"},
      {R"({"format": "lowtide-cluster", "version": 2})", "reads version"},
      {document("[]"), "at least one node"},
      {document("7"), "\"nodes\""},
      {document(R"([{"device": "a100"}])"), "\"count\" is missing"},
      {document(R"([{"count": 0, "device": "a100"}])"), "from 1 to"},
      {document(R"([{"count": 1.5, "device": "a100"}])"), "\"count\""},
      {document(R"([{"count": 1, "device": "a101"}])"), "Did you mean"},
      {document(R"([{"count": 1, "device": "cpu"}])"), "memory_bytes"},
      {document(R"([{"count": 1, "memory_bytes": 9}])"), "flops_per_second"},
      {document(R"([{"count": 1, "device": "a100", "memory_bytes": -1}])"), "memory_bytes"},
      {document(R"([{"count": 1, "device": "a100", "memory_bytes": 5, "reserved_bytes": 5}])"),
       "nothing is left"},
      {document(R"([{"count": 1, "device": "a100", "efficiency": 1.5}])"), "1 at most"},
      {document(R"([{"count": 1, "device": "a100", "efficiency": 0}])"), "more than 0"},
      {document(R"([{"count": 1, "device": "a100", "flops_per_second": {"f8": 1}}])"), "f8"},
      {document(R"([{"count": 1, "device": "a100", "flops_per_second": {"f16": 0}}])"),
       "more than 0"},
      {document(R"([{"count": 1, "device": "a100", "memory": 5}])"), "\"memory\""},
      {document(R"([{"count": 1, "count": 2, "device": "a100"}])"), "twice"},
      {document(R"([{"count": 1000000, "device": "a100"}])"), "ranks"},
      {document(good, R"("between_nodes": {"bytes_per_second": 1})"), "within_node"},
      {document(good, R"("within_node": {"bytes_per_second": 1})"), "between_nodes"},
      {document(good, R"("within_node": {"bytes_per_second": 0})"), "more than 0"},
      {document(good, R"("within_node": {"seconds_per_message": 0})"), "bytes_per_second"},
      {document(good, R"("within_node": {"bytes_per_second": 1, "seconds_per_message": -1})"),
       "0 or more"},
      {document(good, kLinks, R"(, "racks": 3)"), "\"racks\""},
  };
  for (const auto& [text, words] : cases) {
    SCOPED_TRACE(text);
    EXPECT_THROWS_INPUT_ERROR(parse_cluster(text, "c.json"),
                              AllOf(HasSubstr("c.json"), HasSubstr(words)));
  }
}

TEST(ClusterFormat, EveryCutOfADocumentIsRefused) {
  const std::string text = document(R"([{"count": 2, "device": "a100"}])");
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(parse_cluster(text.substr(0, length)), InputError) << length;
  }
}

TEST(Cluster, CountsTheNodesOfAGroup) {
  const Cluster cluster = a100_cluster(4, 8);
  const auto nodes = [&](int first, int count, int stride) {
    return parallel::group_of(cluster, first, count, stride).nodes;
  };
  EXPECT_EQ(nodes(0, 8, 1), 1);
  EXPECT_EQ(nodes(4, 8, 1), 2);
  EXPECT_EQ(nodes(0, 4, 8), 4);
  EXPECT_EQ(nodes(0, 8, 4), 4);
  EXPECT_EQ(nodes(3, 1, 5), 1);
}

TEST(Cluster, KnowsTheKindsOfRanks) {
  Cluster cluster = a100_cluster(2, 4);
  cluster.kinds.push_back(cluster.kinds[0]);
  EXPECT_EQ(cluster.ranks(), 16);
  EXPECT_EQ(cluster.kinds_of(0, 8), std::vector<int>({0}));
  EXPECT_EQ(cluster.kinds_of(8, 8), std::vector<int>({1}));
  EXPECT_EQ(cluster.kinds_of(7, 2), std::vector<int>({0, 1}));
}

/// Each rank sends (p - 1) / p of the bytes, twice for an all-reduce (Patarasuk and Yuan, 2009).
TEST(Collectives, MoveTheBytesOfARing) {
  Cluster cluster = a100_cluster(4, 8);
  cluster.within_node.seconds_per_message = cluster.between_nodes.seconds_per_message = 0;
  const double bytes = 1e9;
  for (const int ranks : {2, 4, 8}) {
    const Group group{.ranks = ranks, .nodes = 1};
    const double share = (ranks - 1.0) / ranks;
    EXPECT_DOUBLE_EQ(parallel::all_gather_seconds(cluster, group, bytes), share * bytes / 3e11);
    EXPECT_DOUBLE_EQ(parallel::reduce_scatter_seconds(cluster, group, bytes),
                     share * bytes / 3e11);
    EXPECT_DOUBLE_EQ(parallel::all_reduce_seconds(cluster, group, bytes),
                     2 * share * bytes / 3e11);
  }
  EXPECT_DOUBLE_EQ(parallel::all_reduce_seconds(cluster, {.ranks = 32, .nodes = 4}, bytes),
                   2 * (31.0 / 32) * bytes / 2.5e10);
  EXPECT_EQ(parallel::all_reduce_seconds(cluster, {}, bytes), 0);
}

TEST(Collectives, HaveTheLatencyOfEveryHop) {
  const Cluster cluster = a100_cluster(4, 8);
  EXPECT_DOUBLE_EQ(parallel::all_gather_seconds(cluster, {.ranks = 32, .nodes = 4}, 0),
                   28 * 5e-6 + 3 * 1e-5);
  EXPECT_DOUBLE_EQ(parallel::send_seconds(cluster.between_nodes, 2.5e10), 1 + 1e-5);
}

}  // namespace
}  // namespace lowtide::testing
