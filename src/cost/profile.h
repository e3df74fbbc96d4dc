#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace lowtide::cost {

/// The measurements of one (op, argument values, shapes, dtypes, strides).
struct OpProfile {
  double microseconds = 0;  ///< of the device's work
  Bytes workspace_bytes = 0;
  std::vector<Allocation> allocations;
  double launch_microseconds =
      0;  ///< of the host, on a device that works later than it is asked to
  bool operator==(const OpProfile&) const = default;
};

/// Measurements of one device, reusable across graphs and runs.
struct Profile {
  std::string device;                 ///< processor or GPU name, threads and library version
  Bytes alignment = kArenaAlignment;  ///< of the workspaces' offsets
  std::map<std::string, OpProfile, std::less<>> ops;  ///< by profile_key()
  bool operator==(const Profile&) const = default;
};

/// Equal keys mean equal op type, arguments, and dtypes, shapes and strides of the inputs. Written
/// like a call: "aten::mm(f32[8,3], f32[3,4]{1,3})"; strides only when not contiguous.
std::string profile_key(const Graph& graph, OpId op);

/// Reads and writes `lowtide-profile` documents. Throws InputError that names the file and the rule
/// for a broken one. A missing file is an empty profile. Writes to a file next to the path, then
/// renames it.
Profile read_profile(const std::filesystem::path& path);
Profile parse_profile(std::string_view text, const std::string& source = "profile");
void write_profile(const Profile& profile, const std::filesystem::path& path);
std::string format_profile(const Profile& profile);

/// Throws InputError that names both devices when the profile was made on another one. An empty
/// profile fits every device.
void require_device(const Profile& profile, std::string_view device,
                    const std::string& source = "profile");

/// The graph with the alignment, times (us), workspaces and allocation sequences from `profile`;
/// ops that it lacks get the roofline estimate (Op::cost_estimated tells which).
Graph priced(const Graph& graph, const Profile& profile);

}  // namespace lowtide::cost
