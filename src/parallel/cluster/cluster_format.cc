#include "parallel/cluster/cluster_format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json_record.h"

namespace lowtide::parallel {
namespace {

constexpr int kMostRanks = 1'000'000;
constexpr Bytes kMostMemory = Bytes{1} << 50;

/// A kind of nodes as it is written: a known device, of which single rates may be replaced, or all
/// rates of one that is not known.
struct WrittenNode {
  int nodes = 0;
  std::optional<cost::DeviceRates> device;
  std::optional<Bytes> memory_bytes;
  Bytes reserved_bytes = 0;
  double efficiency = 1;
  std::map<DType, double> flops_per_second;
  std::optional<double> bytes_per_second, seconds_per_op;
};

double positive(JsonValue value) {
  const double number = value.number();
  if (std::isfinite(number) && number > 0) return number;
  throw InputError(fmt::format("is {}; it must be more than 0", number));
}

double not_negative(JsonValue value) {
  const double number = value.number();
  if (std::isfinite(number) && number >= 0) return number;
  throw InputError(fmt::format("is {}; it must be 0 or more", number));
}

int count(JsonValue value) {
  const std::int64_t number = value.integer();
  if (number >= 1 && number <= kMostRanks) return static_cast<int>(number);
  throw InputError(fmt::format("is {}; it must be from 1 to {}", number, kMostRanks));
}

Bytes memory(JsonValue value, Bytes least) {
  const std::int64_t bytes = value.integer();
  if (bytes >= least && bytes <= kMostMemory) return bytes;
  throw InputError(fmt::format("is {}; it must be from {} to {}", bytes, least, kMostMemory));
}

double share(JsonValue value) {
  const double number = value.number();
  if (number > 0 && number <= 1) return number;
  throw InputError(fmt::format("is {}; it must be more than 0, and 1 at most", number));
}

std::map<DType, double> rates(JsonValue value) {
  std::map<DType, double> result;
  for (const auto& [key, rate] : value.members()) {
    const std::optional<DType> dtype = parse_dtype(key);
    if (!dtype)
      throw InputError(fmt::format("has \"{}\", which is no type: write f32, bf16 ...", key));
    try {
      result[*dtype] = positive(rate);
    } catch (const InputError& error) {
      throw InputError(fmt::format("of \"{}\" {}", key, error.what()));
    }
  }
  return result;
}

/// Reads an object of a closed set of keys: a misspelt one would change the answer in silence.
template <typename T>
T read_closed(JsonValue value, std::span<const Field<T>> fields) {
  T read;
  Record<T> record(fields);
  for (const auto& [key, content] : value.members()) {
    if (std::ranges::find(fields, key, &Field<T>::key) == fields.end()) {
      throw InputError(fmt::format("has the key \"{}\", which is not known", key));
    }
    record.read(read, key, content);
  }
  record.finish();
  return read;
}

constexpr std::array<Field<Link>, 2> kLinkFields{{
    {"bytes_per_second", true,
     [](Link& link, JsonValue value) {
       link.bytes_per_second = positive(value);
       return true;
     }},
    {"seconds_per_message", false,
     [](Link& link, JsonValue value) {
       link.seconds_per_message = not_negative(value);
       return true;
     }},
}};

constexpr std::array<Field<WrittenNode>, 8> kNodeFields{{
    {"count", true,
     [](WrittenNode& node, JsonValue value) {
       node.nodes = count(value);
       return true;
     }},
    {"device", false,
     [](WrittenNode& node, JsonValue value) {
       node.device = cost::find_device(value.text());
       return true;
     }},
    {"memory_bytes", false,
     [](WrittenNode& node, JsonValue value) {
       node.memory_bytes = memory(value, 1);
       return true;
     }},
    {"reserved_bytes", false,
     [](WrittenNode& node, JsonValue value) {
       node.reserved_bytes = memory(value, 0);
       return true;
     }},
    {"efficiency", false,
     [](WrittenNode& node, JsonValue value) {
       node.efficiency = share(value);
       return true;
     }},
    {"flops_per_second", false,
     [](WrittenNode& node, JsonValue value) {
       node.flops_per_second = rates(value);
       return true;
     }},
    {"bytes_per_second", false,
     [](WrittenNode& node, JsonValue value) {
       node.bytes_per_second = positive(value);
       return true;
     }},
    {"seconds_per_op", false,
     [](WrittenNode& node, JsonValue value) {
       node.seconds_per_op = not_negative(value);
       return true;
     }},
}};

/// The rates of a device that has no data sheet here.
cost::DeviceRates unknown_device(const WrittenNode& written) {
  if (!written.flops_per_second.contains(DType::f32) || !written.bytes_per_second) {
    throw InputError("has no \"device\": then it needs \"flops_per_second\" with at least \"f32\", "
                     "and \"bytes_per_second\"");
  }
  cost::DeviceRates device;
  device.name = device.title = "described in the file";
  return device;
}

NodeKind kind_from(const WrittenNode& written) {
  cost::DeviceRates device = written.device ? *written.device : unknown_device(written);
  for (const auto& [dtype, rate] : written.flops_per_second) device.flops_per_second[dtype] = rate;
  for (auto& [dtype, rate] : device.flops_per_second) rate *= written.efficiency;
  device.bytes_per_second = written.bytes_per_second.value_or(device.bytes_per_second);
  device.seconds_per_op = written.seconds_per_op.value_or(device.seconds_per_op);
  const Bytes memory = written.memory_bytes.value_or(device.memory_bytes);
  if (memory <= 0) throw InputError("needs \"memory_bytes\": that of its device is not known");
  if (written.reserved_bytes >= memory) {
    throw InputError(
        fmt::format("reserves {} bytes of {}: nothing is left", written.reserved_bytes, memory));
  }
  return {.nodes = written.nodes,
          .device = std::move(device),
          .memory_bytes = memory - written.reserved_bytes,
          .peak_share = written.efficiency};
}

std::vector<NodeKind> kinds_from(JsonValue value) {
  std::vector<NodeKind> kinds;
  const std::vector<JsonValue> items = value.items();
  if (items.empty()) throw InputError("is empty: a cluster has at least one node");
  for (std::size_t i = 0; i < items.size(); ++i) {
    try {
      kinds.push_back(kind_from(read_closed<WrittenNode>(items[i], kNodeFields)));
    } catch (const InputError& error) {
      throw InputError(fmt::format("entry {}: {}", i, error.what()));
    }
  }
  return kinds;
}

constexpr std::array<Field<Cluster>, 7> kClusterFields{{
    {"format", true,
     [](Cluster&, JsonValue value) {
       if (value.text() == "lowtide-cluster") return true;
       throw InputError(fmt::format("is \"{}\", not \"lowtide-cluster\"", value.text()));
     }},
    {"version", true,
     [](Cluster&, JsonValue value) {
       read_version(value, 1);
       return true;
     }},
    {"name", false,
     [](Cluster& cluster, JsonValue value) {
       cluster.name = value.text();
       return true;
     }},
    {"devices_per_node", true,
     [](Cluster& cluster, JsonValue value) {
       cluster.devices_per_node = count(value);
       return true;
     }},
    {"nodes", true,
     [](Cluster& cluster, JsonValue value) {
       cluster.kinds = kinds_from(value);
       return true;
     }},
    {"within_node", false,
     [](Cluster& cluster, JsonValue value) {
       cluster.within_node = read_closed<Link>(value, kLinkFields);
       return true;
     }},
    {"between_nodes", false,
     [](Cluster& cluster, JsonValue value) {
       cluster.between_nodes = read_closed<Link>(value, kLinkFields);
       return true;
     }},
}};

/// A link is needed where there is something on both of its ends.
void check_links(const Cluster& cluster) {
  double nodes = 0;
  for (const NodeKind& kind : cluster.kinds) nodes += kind.nodes;
  if (nodes * cluster.devices_per_node > kMostRanks) {
    throw InputError(fmt::format("it has {:.0f} ranks; {} are the most",
                                 nodes * cluster.devices_per_node, kMostRanks));
  }
  if (cluster.devices_per_node > 1 && cluster.within_node.bytes_per_second == 0) {
    throw InputError("the key \"within_node\" is missing: nodes have several devices");
  }
  if (nodes > 1 && cluster.between_nodes.bytes_per_second == 0) {
    throw InputError("the key \"between_nodes\" is missing: there are several nodes");
  }
}

Cluster read_from(std::istream& stream, const std::string& source) {
  return with_source(source, [&] {
    Cluster cluster;
    Record<Cluster> record(kClusterFields);
    JsonListener listener;
    listener.member = [&](std::string_view key, JsonValue value) {
      if (std::ranges::find(kClusterFields, key, &Field<Cluster>::key) == kClusterFields.end()) {
        throw InputError(fmt::format("the key \"{}\" is not known", key));
      }
      record.read(cluster, key, value);
    };
    read_json_object(stream, {}, listener);
    record.finish();
    check_links(cluster);
    return cluster;
  });
}

}  // namespace

Cluster read_cluster(const std::filesystem::path& path) {
  return read_from(*open_for_reading(path), path.string());
}

Cluster parse_cluster(std::string_view text, const std::string& source) {
  std::istringstream stream{std::string(text)};
  return read_from(stream, source);
}

}  // namespace lowtide::parallel
