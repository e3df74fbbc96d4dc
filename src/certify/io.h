#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "certify/certificate.h"

namespace lowtide::certify {

/// Reads and writes `lowtide-certificate` documents (docs/reference/certificate-format.md). Reading
/// throws InputError that names the file and the rule, for a key that the format does not have too.
/// Writing goes beside the file, then renames.
Certificate read_certificate(const std::filesystem::path& path);
Certificate parse_certificate(std::string_view text, const std::string& source = "certificate");
void write_certificate(const Certificate& certificate, const std::filesystem::path& path);
std::string format_certificate(const Certificate& certificate);

}  // namespace lowtide::certify
