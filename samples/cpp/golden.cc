#include "golden.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostSize = uint64_t{1} << 31;
constexpr double kMostTolerance = 1e30;

[[noreturn]] void refuse(const Json& tensor, const std::string& problem) {
  throw std::runtime_error("golden.json: " + tensor.at("name").get<std::string>() + ": " + problem +
                           ": export the bundle again");
}

// Calls `visit` with a value of the C++ type of a dtype.
template <typename Visit>
auto with_type(const std::string& dtype, Visit visit) {
  if (dtype == "float32") return visit(float{});
  if (dtype == "float64") return visit(double{});
  if (dtype == "int8") return visit(int8_t{});
  if (dtype == "int16") return visit(int16_t{});
  if (dtype == "int32") return visit(int32_t{});
  if (dtype == "int64") return visit(int64_t{});
  if (dtype == "uint8") return visit(uint8_t{});
  if (dtype == "uint16") return visit(uint16_t{});
  if (dtype == "uint32") return visit(uint32_t{});
  if (dtype == "uint64") return visit(uint64_t{});
  if (dtype == "bool") return visit(bool{});
  throw std::runtime_error("golden.json: got dtype " + dtype + ", expected a type of numbers or bool");
}

template <typename T>
T value_of(const Json& tensor, const Json& value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value == "NaN") return std::numeric_limits<T>::quiet_NaN();
    if (value == "Infinity") return std::numeric_limits<T>::infinity();
    if (value == "-Infinity") return -std::numeric_limits<T>::infinity();
    if (value.is_number()) return value.get<T>();
  } else if (std::is_same_v<T, bool> ? value.is_boolean() : value.is_number_integer()) {
    const T number = value.get<T>();
    if (Json(number).dump() == value.dump()) return number;  // else it is outside of the type
  }
  refuse(tensor, "values: got " + value.dump() + ", expected " + tensor.at("dtype").get<std::string>());
}

std::vector<int64_t> shape_of(const Json& tensor) {
  const Json& shape = tensor.at("shape");
  const bool has_sizes = std::all_of(shape.begin(), shape.end(), [](const Json& size) {
    return size.is_number_unsigned() && size <= kMostSize;
  });
  if (!has_sizes) refuse(tensor, "shape: got " + shape.dump() + ", expected sizes");
  return shape.get<std::vector<int64_t>>();
}

double tolerance_of(const Json& tensor, const std::string& key) {
  const double value = tensor.value(key, 0.0);
  if (!(value >= 0 && value < kMostTolerance)) {
    refuse(tensor, key + ": got " + tensor.at(key).dump() + ", expected 0 <= " + key + " < 1e+30");
  }
  return value;
}

template <typename T>
bool agrees(T got, T expected, double atol, double rtol) {
  if (got == expected) return true;
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(expected)) return std::isnan(got);
    const double most = atol + rtol * std::abs(static_cast<double>(expected));
    return std::isfinite(expected) && std::abs(static_cast<double>(got) - expected) <= most;
  }
  return false;
}

std::string text_of(const std::vector<int64_t>& shape) { return Json(shape).dump(); }

Ort::Value tensor_of(const Json& input) {
  const auto shape = shape_of(input);
  const Json& values = input.at("values");
  // In double: sizes of a damaged file may overflow.
  const double count = std::accumulate(shape.begin(), shape.end(), 1.0, std::multiplies<double>());
  if (count != static_cast<double>(values.size())) {
    refuse(input,
           "values: got " + std::to_string(values.size()) + ", expected those of shape " + text_of(shape));
  }
  return with_type(input.at("dtype"), [&](auto zero) {
    using T = decltype(zero);
    Ort::AllocatorWithDefaultOptions allocator;
    auto tensor = Ort::Value::CreateTensor<T>(allocator, shape.data(), shape.size());
    T* data = tensor.template GetTensorMutableData<T>();
    for (const Json& value : values) *data++ = value_of<T>(input, value);
    return tensor;
  });
}

template <typename T>
std::string difference_of(const Json& golden, const Ort::Value& tensor) {
  const auto info = tensor.GetTensorTypeAndShapeInfo();
  const auto shape = shape_of(golden);
  if (info.GetElementType() != Ort::TypeToTensorType<T>::type || info.GetShape() != shape) {
    return "got another type, or shape " + text_of(info.GetShape()) + ", expected " +
           golden.at("dtype").get<std::string>() + " " + text_of(shape);
  }
  const Json& values = golden.at("values");
  const bool has_positions = golden.contains("positions");
  const size_t count = info.GetElementCount();
  const size_t wanted = has_positions ? golden.at("positions").size() : count;
  if (!values.is_array() || values.size() != wanted) {
    refuse(golden, "values: got " + std::to_string(values.size()) + ", expected " + std::to_string(wanted));
  }
  const double atol = tolerance_of(golden, "atol"), rtol = tolerance_of(golden, "rtol");
  const T* data = tensor.GetTensorData<T>();
  for (size_t i = 0; i < values.size(); ++i) {
    const Json place = has_positions ? golden.at("positions").at(i) : Json(i);
    if (!place.is_number_unsigned() || place >= count) {
      refuse(golden,
             "positions: got " + place.dump() + ", expected 0 <= position < " + std::to_string(count));
    }
    const auto position = place.get<size_t>();
    const T expected = value_of<T>(golden, values[i]);
    if (!agrees(data[position], expected, atol, rtol)) {
      std::ostringstream text;
      text.precision(std::numeric_limits<double>::max_digits10);
      text << "got " << +data[position] << " at position " << position << ", expected " << +expected
           << " (atol " << atol << ", rtol " << rtol << ")";
      return text.str();
    }
  }
  return "";
}

}  // namespace

void compare_golden(Ort::Session& session, const Json& golden) {
  std::vector<std::string> names;  // of inputs, then of outputs
  std::vector<Ort::Value> inputs;
  for (const Json& input : golden.at("inputs")) {
    names.push_back(input.at("name"));
    inputs.push_back(tensor_of(input));
  }
  for (const Json& output : golden.at("outputs")) names.push_back(output.at("name"));
  const Json& golden_outputs = golden.at("outputs");
  if (std::all_of(golden_outputs.begin(), golden_outputs.end(),
                  [](const Json& output) { return output.at("values").empty(); })) {
    throw std::runtime_error("golden.json: got no values, expected outputs to compare");
  }
  std::vector<const char*> pointers;
  for (const std::string& name : names) pointers.push_back(name.c_str());

  const char** output_names = pointers.data() + inputs.size();
  const auto outputs = session.Run(Ort::RunOptions{}, pointers.data(), inputs.data(), inputs.size(),
                                   output_names, pointers.size() - inputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Json& expected = golden.at("outputs").at(i);
    const std::string difference = with_type(
        expected.at("dtype"), [&](auto zero) { return difference_of<decltype(zero)>(expected, outputs[i]); });
    if (!difference.empty()) {
      throw std::runtime_error(std::string("output ") + output_names[i] + ": " + difference +
                               ": this machine computes something else than the trained model");
    }
  }
}
