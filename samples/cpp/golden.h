// Compares the outputs of this machine with those of the trained model:
//
//   |y - g| <= atol + rtol |g|    for floats; other values are equal
#pragma once

#include <onnxruntime_cxx_api.h>

#include <nlohmann/json.hpp>

// Runs the model on the golden inputs. `golden` is the content of golden.json.
//
// Throws std::runtime_error if an output differs, with its name, its values and the position, or if `golden`
// is damaged; Ort::Exception if the model has other inputs or outputs.
void compare_golden(Ort::Session& session, const nlohmann::json& golden);
