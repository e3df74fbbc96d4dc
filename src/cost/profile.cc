#include "cost/profile.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "cost/roofline.h"
#include "graph/boundary.h"

namespace lowtide::cost {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "lowtide-profile";
constexpr int kVersion = 1;

json to_json(const OpProfile& op) {
  json allocations = json::array();
  for (const Allocation& a : op.allocations) allocations.push_back({a.bytes, a.output, a.offset});
  json entry = {{"microseconds", op.microseconds},
                {"workspace_bytes", op.workspace_bytes},
                {"allocations", std::move(allocations)}};
  if (op.launch_microseconds > 0) entry["launch_microseconds"] = op.launch_microseconds;
  return entry;
}

/// json::get would also accept and change fractions, booleans and numbers outside the type's range.
template <typename T>
T whole_number(const json& value) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<T>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  if (!fits) {
    throw InputError(fmt::format("{} must be a whole number of at most {} bits", value.dump(),
                                 std::numeric_limits<T>::digits));
  }
  return value.get<T>();
}

Allocation allocation_from(const json& entry) {
  if (entry.size() != 3) throw InputError("an allocation is [bytes, output, offset]");
  const Allocation result{whole_number<Bytes>(entry.at(0)), whole_number<int>(entry.at(1)),
                          whole_number<Bytes>(entry.at(2))};
  if (result.bytes < 0 || result.output < -1 || result.offset < 0) {
    throw InputError("an allocation has a negative size, output or offset");
  }
  return result;
}

double time_from(const json& value, std::string_view key) {
  if (!value.is_number()) throw InputError(fmt::format("\"{}\" must be a number", key));
  const auto time = value.get<double>();
  if (std::isfinite(time) && time >= 0) return time;
  throw InputError("times and bytes must be finite and not negative");
}

OpProfile op_from(const json& entry) {
  OpProfile op;
  op.microseconds = time_from(entry.at("microseconds"), "microseconds");
  op.launch_microseconds =
      time_from(entry.value("launch_microseconds", json(0)), "launch_microseconds");
  op.workspace_bytes = whole_number<Bytes>(entry.at("workspace_bytes"));
  if (op.workspace_bytes < 0) throw InputError("times and bytes must be finite and not negative");
  for (const json& a : entry.at("allocations")) op.allocations.push_back(allocation_from(a));
  return op;
}

bool is_profile(const json& document) {
  return document.is_object() && document.value("format", json()) == kFormat;
}

/// May be anything, such as another file of the user: nobody should delete it.
[[noreturn]] void refuse_other_file(const std::string& source, const std::string& why) {
  throw InputError(fmt::format("{}: not a {} document{}; name another file for the measurements",
                               source, kFormat, why));
}

json document_from(std::string_view text, const std::string& source) {
  try {
    json document = json::parse(text);
    if (!is_profile(document)) refuse_other_file(source, "");
    return document;
  } catch (const json::parse_error& error) {
    refuse_other_file(source, fmt::format(", nor any JSON (byte {})", error.byte));
  } catch (const json::out_of_range&) {
    refuse_other_file(source, ", as it has a number that is too large");
  }
}

Profile profile_from(const json& document) {
  if (const json version = document.value("version", json()); version != kVersion) {
    throw InputError(
        fmt::format("version {} is not known; this is version {}", version.dump(), kVersion));
  }
  Profile profile;
  profile.device = document.at("device").get<std::string>();
  if (document.contains("alignment")) {
    profile.alignment = whole_number<Bytes>(document.at("alignment"));
    const auto alignment = static_cast<std::uint64_t>(profile.alignment);
    if (profile.alignment < kArenaAlignment || !std::has_single_bit(alignment)) {
      throw InputError(fmt::format("alignment {} is no power of two from {} on", profile.alignment,
                                   kArenaAlignment));
    }
  }
  for (const auto& [key, entry] : document.at("ops").items()) {
    try {
      profile.ops[key] = op_from(entry);
    } catch (const std::exception& error) {
      throw InputError(fmt::format("op \"{}\": {}", key, error.what()));
    }
  }
  return profile;
}

}  // namespace

Profile parse_profile(std::string_view text, const std::string& source) {
  const json document = document_from(text, source);
  try {
    return profile_from(document);
  } catch (const json::exception&) {
    throw InputError(fmt::format(
        "{}: a key is missing or has the wrong type; delete it to measure again", source));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}; delete it to measure again", source, error.what()));
  }
}

Profile read_profile(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::status(path, error).type() == fs::file_type::not_found) return {};
  return parse_profile(read_file(path), path.string());
}

std::string format_profile(const Profile& profile) {
  json ops = json::object();
  for (const auto& [key, op] : profile.ops) ops[key] = to_json(op);
  json document = {{"format", kFormat},
                   {"version", kVersion},
                   {"device", profile.device},
                   {"ops", std::move(ops)}};
  if (profile.alignment != kArenaAlignment) document["alignment"] = profile.alignment;
  return document.dump(1) + "\n";
}

void write_profile(const Profile& profile, const std::filesystem::path& path) {
  write_file(path, format_profile(profile));
}

void require_device(const Profile& profile, std::string_view device, const std::string& source) {
  if (profile.device.empty() || profile.device == device) return;
  throw InputError(fmt::format(
      "{}: measured on \"{}\", but this is \"{}\"; its times and workspaces do not hold here, so "
      "name another file",
      source, profile.device, device));
}

Graph priced(const Graph& graph, const Profile& profile) {
  GraphData data = graph.data();
  data.cost_unit = "us";
  data.device = profile.device;
  data.alignment = profile.alignment;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    Op& op = data.ops[static_cast<std::size_t>(id)];
    if (is_boundary(op)) continue;
    const auto measured = profile.ops.find(profile_key(graph, id));
    op.cost_estimated = measured == profile.ops.end();
    if (op.cost_estimated) {
      op.cost = roofline_microseconds(graph, id, default_rates());
    } else {
      op.cost = measured->second.microseconds;
      op.workspace_bytes = measured->second.workspace_bytes;
      op.allocations = measured->second.allocations;
    }
  }
  return Graph(std::move(data));
}

}  // namespace lowtide::cost
