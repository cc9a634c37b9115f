// SHA-256 of a file.
#pragma once

#include <filesystem>
#include <string>

// Returns the hash as 64 hex digits. Throws std::runtime_error if the file cannot be read.
std::string sha256_of(const std::filesystem::path& path);
