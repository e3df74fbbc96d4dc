#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "certify/certificate.h"

namespace lowtide::certify {

/// Reads and writes `lowtide-certificate` documents (docs/reference/certificate-format.md). Reading
/// throws InputError that names the file and the rule, also for an unknown key. Writes to a file
/// next to the path, then renames it.
Certificate read_certificate(const std::filesystem::path& path);
Certificate parse_certificate(std::string_view text, const std::string& source = "certificate");
void write_certificate(const Certificate& certificate, const std::filesystem::path& path);
std::string format_certificate(const Certificate& certificate);

}  // namespace lowtide::certify
