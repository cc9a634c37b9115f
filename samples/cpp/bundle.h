// Opens a bundle of `edge-embed export --bundle` in ONNX Runtime.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using Texts = std::map<std::string, std::string>;

struct Bundle {
  std::filesystem::path folder;
  nlohmann::json manifest;
  Texts metadata;         // what was saved with the model
  std::string model;      // name of its file
  std::string operators;  // what computes the tables, for people
  Ort::Session session;

  // Returns the token of every id.
  std::vector<std::string> vocabulary() const;

  // Returns an output of the model for one input. Throws std::runtime_error if ONNX Runtime refuses it.
  Ort::Value run(const char* input_name, const Ort::Value& input, const char* output_name);
};

enum class Check { none, hashes_and_golden_outputs };

// Opens a bundle. An app may skip the check after a first start that passed.
//
// Throws std::runtime_error if a file was changed, the bundle does not fit this app or this runtime, or the
// model computes other outputs than the trained one; the message names the file.
Bundle open_bundle(const Ort::Env& env, const std::filesystem::path& folder,
                   Check check = Check::hashes_and_golden_outputs);
