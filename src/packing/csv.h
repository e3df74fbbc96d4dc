#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "packing/packing.h"
#include "packing/tied.h"

namespace lowtide::packing {

/// Buffers of a file, with what it calls them.
struct BufferTable {
  std::vector<std::string> ids;
  std::vector<Buffer> buffers;
  Ties ties = {};
};

/// Reads MiniMalloc's CSV: a header, then one buffer a line. Columns, in any order: `id` (or
/// `buffer`, `buffer_id`), `lower` (`start`, `begin`) and `upper`, the half-open life; instead of
/// `upper`, `end` is the last time included; `size`; where there are, `alignment` and `offset`,
/// where the buffer must lie; an empty `offset` or -1 means anywhere; `same` and `group`, names
/// that tie buffers (Ties). Other columns are an error. Times must be within 32 bits. Throws
/// InputError that names the source, if it has a name, and the line.
BufferTable parse_buffers(std::string_view text, std::string_view source = "");
BufferTable read_buffers(const std::filesystem::path& path);

/// id,lower,upper,size,alignment,same,group,offset, one buffer a line: what parse_buffers reads,
/// with offsets. `alignment` is left out where no buffer has any, as are ties where there are none.
std::string to_csv(const BufferTable& table, const Packing& packing);

}  // namespace lowtide::packing
