#pragma once

#include <filesystem>
#include <functional>
#include <istream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lowtide {

/// The whole content of a file. Throws InputError that names the file and the reason when it does
/// not exist, is a directory, may not be read, or fails while it is read.
std::string read_file(const std::filesystem::path& path);
/// Opens a file for reading in pieces; reads a pipe or the like at once. Throws as read_file().
std::unique_ptr<std::istream> open_for_reading(const std::filesystem::path& path);

/// A text without the mark (UTF-8) with which spreadsheets and some editors begin a file.
std::string_view without_byte_order_mark(std::string_view text);

/// Replaces a file in one step: writes `path`.partial, flushes it to the disk, renames it. If this
/// process is killed, a reader still sees the old file or the new one; the next write overwrites a
/// partial file. On failure the partial file is removed, the old file stays, and an InputError
/// (unusable path) or Error (no space, broken disk) names file and reason. Anything but a regular
/// file, such as /dev/stdout, is written directly. A symbolic link is followed, but for one that
/// has the name of the partial file, which others could have laid there: that is an InputError.
void write_file(const std::filesystem::path& path, std::string_view content);
/// Appends to a file that is being written.
using Append = std::function<void(std::string_view)>;
/// The same for a content that `write` appends in parts, so that one part is in memory at a time.
void write_file(const std::filesystem::path& path, const std::function<void(const Append&)>& write);

/// The same, readable and writable for this user alone.
void write_private_file(const std::filesystem::path& path, std::string_view content);

/// Throws InputError for a folder in which another user may have written: it belongs to another, or
/// others may write in it. Does nothing where there is none.
void require_private_folder(const std::filesystem::path& folder);
/// The same, and makes it, for this user alone, where there is none. Folders above it are made as
/// usual.
void make_private_folder(const std::filesystem::path& folder);

/// Throws as write_file() would, except for missing space. Call it before long work whose result
/// goes to this path. A file at the path stays. Does nothing for an empty path.
void require_can_write(const std::filesystem::path& path);

/// Throws InputError for an output that is also an input or an output before it, under any name.
/// Empty names and devices are passed over.
void require_other_files(const std::vector<std::filesystem::path>& inputs,
                         const std::vector<std::filesystem::path>& outputs);

}  // namespace lowtide
