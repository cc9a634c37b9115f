// Opens a bundle of `edge-embed export --bundle` in ONNX Runtime.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

struct Bundle {
  std::filesystem::path folder;
  nlohmann::json manifest;
  std::string operators;  // what computes the tables, for people
  Ort::Session session;

  // Returns the token of every id.
  std::vector<std::string> vocabulary() const;
};

enum class Check { none, hashes_and_golden_outputs };

// Opens a bundle. An app may skip the check after a first start that passed.
//
// Throws std::runtime_error if a file was changed, the bundle does not fit this app or this runtime, or the
// model computes other outputs than the trained one; the message names the file.
Bundle open_bundle(const Ort::Env& env, const std::filesystem::path& folder,
                   Check check = Check::hashes_and_golden_outputs);
