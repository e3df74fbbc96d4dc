#pragma once

#include <filesystem>
#include <istream>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lowtide {

/// The whole content of a file. Throws InputError that names the file and the reason when it does
/// not exist, is a directory, may not be read, or fails while it is read.
std::string read_file(const std::filesystem::path& path);
/// Opens a file to be read in pieces, or reads what is no file; throws as read_file does.
std::unique_ptr<std::istream> open_for_reading(const std::filesystem::path& path);

/// Replaces a file in one step: writes `path`.partial, brings it to the disk, renames it. A reader
/// sees the old file or the new one, whenever this process is killed; what a killed process left
/// is overwritten by the next write. On failure the partial file is removed, the old one stays,
/// and an InputError (the path is unusable) or Error (no space, broken disk) names file and reason.
/// What is no regular file, such as /dev/stdout, is written directly. A symbolic link is followed.
void write_file(const std::filesystem::path& path, std::string_view content);
/// The same for a content in parts, one after the other.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts);

/// Throws as write_file would, to be asked before long work whose result is written there; that no
/// space will be left can't be foreseen. What is at the path stays. An empty path is none.
void require_can_write(const std::filesystem::path& path);

}  // namespace lowtide
