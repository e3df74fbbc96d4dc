#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "packing/packing.h"
#include "packing/tied.h"

namespace lowtide::packing {

/// The buffers of a file and their names.
struct BufferTable {
  std::vector<std::string> ids;
  std::vector<Buffer> buffers;
  Ties ties = {};
};

/// Reads MiniMalloc's CSV: a header, then one buffer a line. Columns, in any order: `id` (or
/// `buffer`, `buffer_id`), `lower` (`start`, `begin`) and `upper`, the half-open life (`end`,
/// instead of `upper`, is the last time included); `size`; optionally `alignment`; `offset`, a
/// fixed offset (empty or -1: none); `same` and `group`, names that tie buffers (Ties). Other
/// columns are an error. Times must be within 32 bits. Throws InputError that names the source, if
/// it has a name, and the line.
BufferTable parse_buffers(std::string_view text, std::string_view source = "");
BufferTable read_buffers(const std::filesystem::path& path);

/// id,lower,upper,size,alignment,same,group,offset, one buffer per line, as parse_buffers() reads
/// it. Leaves out `alignment`, `same` and `group` when no buffer has any.
std::string to_csv(const BufferTable& table, const Packing& packing);

}  // namespace lowtide::packing
