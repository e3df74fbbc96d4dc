#pragma once

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace lowtide {

/// The whole content of a file. Throws InputError that names the file and the reason when it does
/// not exist, is a directory, may not be read, or fails while it is read.
std::string read_file(const std::filesystem::path& path);
/// Opens a file to be read in pieces; throws as read_file does.
std::ifstream open_for_reading(const std::filesystem::path& path);

/// Replaces a file in one step: writes `path`.partial, brings it to the disk, renames it. A reader
/// sees the old file or the new one, whenever this process is killed; what a killed process left
/// is overwritten by the next write. On failure the partial file is removed, the old one stays,
/// and an InputError (the path is unusable) or Error (no space, broken disk) names file and reason.
/// What is no regular file, such as /dev/stdout, is written directly. A symbolic link is followed.
void write_file(const std::filesystem::path& path, std::string_view content);
/// The same for a content in parts, one after the other.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts);

}  // namespace lowtide
