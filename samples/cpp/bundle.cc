#include "bundle.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "golden.h"
#include "sha256.h"

#ifdef HAS_EDGE_EMBED_OPS
#include <edge_embed/ops.h>
#endif

namespace {

namespace fs = std::filesystem;

constexpr int kFormatVersion = 1;
constexpr char kManifest[] = "bundle.json";
constexpr char kAgain[] = ": copy or download the bundle again";

[[noreturn]] void fail(const std::string& name, const std::string& problem) {
  throw std::runtime_error(name + ": " + problem);
}

// Calls `use` with the content of a JSON file; a key that is missing or has another type is an error of that
// file.
template <typename Use>
auto with_json(const fs::path& folder, const std::string& name, Use use) {
  std::ifstream file(folder / name, std::ios::binary);
  if (!file) fail(name, "no such file, expected a folder of edge-embed export --bundle");
  try {
    return use(nlohmann::json::parse(file));
  } catch (const nlohmann::json::exception& error) {
    fail(name, std::string("is damaged: ") + error.what() + kAgain);
  }
}

// Calls `use`; an error of ONNX Runtime names the file.
template <typename Use>
auto with_runtime(const std::string& name, const std::string& problem, Use use) {
  try {
    return use();
  } catch (const Ort::Exception& error) {
    fail(name, "ONNX Runtime " + Ort::GetVersionString() + " " + problem + ": " + error.what() +
                   ": export the bundle again");
  }
}

std::vector<int> numbers_of(const std::string& version) {
  std::vector<int> numbers{0};
  for (char letter : version) {
    if (letter == '.') {
      numbers.push_back(0);
    } else if (letter >= '0' && letter <= '9' && numbers.back() < 100000000) {
      numbers.back() = 10 * numbers.back() + (letter - '0');
    } else {
      break;  // such as -rc.1
    }
  }
  while (numbers.size() > 1 && numbers.back() == 0) numbers.pop_back();
  return numbers;
}

bool is_older(const std::string& version, const std::string& needed) {
  return numbers_of(version) < numbers_of(needed);
}

void require_format(const nlohmann::json& manifest) {
  const auto& version = manifest.at("format_version");
  if (!version.is_number_integer() || version != kFormatVersion) {
    fail(kManifest, "got format_version " + version.dump() + ", expected 1: update this app");
  }
  const std::string target = manifest.at("target");
  if (target != "onnx") fail(kManifest, "got target " + target + ", expected onnx: export it again");
  const auto& needs = manifest.at("requires");
  for (const auto& [name, least] : needs.get<Texts>()) {
    if (least.empty() || least.find_first_not_of("0123456789.") != std::string::npos) {
      fail(kManifest, "requires: " + name + ": got " + nlohmann::json(least).dump() +
                          ", expected a version such as 1.18" + kAgain);
    }
  }
  if (needs.contains("onnxruntime_extensions")) {
    fail(kManifest, "its model contains a tokenizer, which this app does not run: export without one");
  }
  const std::string got = Ort::GetVersionString(), needed = needs.value("onnxruntime", "0");
  if (is_older(got, needed)) {
    throw std::runtime_error("got ONNX Runtime " + got + ", expected " + needed + " or newer: update it");
  }
}

void compare_hash(const fs::path& folder, const std::string& name, const nlohmann::json& expected) {
  // A manifest may come from a server: its names stay in the folder.
  const bool is_plain =
      !name.empty() && name[0] != '.' && std::none_of(name.begin(), name.end(), [](unsigned char byte) {
        return byte < ' ' || std::strchr("/\\:", byte);
      });
  if (!is_plain) {
    fail(kManifest, "got a file named " + nlohmann::json(name).dump() + ", expected a plain name");
  }
  const auto& size = expected.at("bytes");
  if (!size.is_number_unsigned()) {
    fail(kManifest, "files: " + name + ": bytes: got " + size.dump() + ", expected a whole number" + kAgain);
  }
  std::error_code failed;
  const auto bytes = fs::file_size(folder / name, failed), wanted = size.get<uintmax_t>();
  if (failed) fail(name, "no such file" + std::string(kAgain));
  if (bytes != wanted) {
    fail(name, "got " + std::to_string(bytes) + " bytes, expected " + std::to_string(wanted) + kAgain);
  }
  const std::string got = sha256_of(folder / name), digest = expected.at("sha256");
  if (got != digest) fail(name, "got SHA-256 " + got + ", expected " + digest + kAgain);
}

// Registers the operator library, and returns what computes the tables.
std::string register_operators([[maybe_unused]] Ort::SessionOptions& options,
                               [[maybe_unused]] const nlohmann::json& manifest) {
#ifdef HAS_EDGE_EMBED_OPS
  const std::string got = ee_version(), needed = manifest.at("requires").value("edge_embed_ops", "0");
  if (is_older(got, needed)) {
    return "portable bodies: got operator library " + got + ", expected " + needed + " or newer: update it";
  }
  Ort::ThrowOnError(RegisterEdgeEmbedOps(options, OrtGetApiBase()));
  return "operator library " + got;
#else
  return "portable bodies";
#endif
}

}  // namespace

std::vector<std::string> Bundle::vocabulary() const {
  if (!manifest.at("files").contains("vocabulary.json")) {
    fail(kManifest, "got no hash of vocabulary.json, expected one: export a model with a vocabulary");
  }
  return with_json(folder, "vocabulary.json",
                   [](const auto& words) { return words.template get<std::vector<std::string>>(); });
}

Ort::Value Bundle::run(const char* input_name, const Ort::Value& input, const char* output_name) {
  return with_runtime(model, "cannot run it", [&] {
    return std::move(session.Run(Ort::RunOptions{}, &input_name, &input, 1, &output_name, 1)[0]);
  });
}

Bundle open_bundle(const Ort::Env& env, const fs::path& folder, Check check) {
  Bundle bundle = with_json(folder, kManifest, [&](nlohmann::json manifest) {
    require_format(manifest);
    const auto& files = manifest.at("files");
    if (check != Check::none) {
      for (const auto& [name, expected] : files.items()) compare_hash(folder, name, expected);
    }
    const std::string model = manifest.at("model");
    for (const std::string& name : {model, std::string("golden.json")}) {
      if (!files.contains(name)) fail(kManifest, "got no hash of " + name + kAgain);
    }
    Ort::SessionOptions options;
    std::string operators = register_operators(options, manifest);
    auto session = with_runtime(model, "cannot open it",
                                [&] { return Ort::Session(env, (folder / model).c_str(), options); });
    auto metadata = manifest.at("metadata").get<Texts>();
    return Bundle{folder, std::move(manifest),  std::move(metadata),
                  model,  std::move(operators), std::move(session)};
  });
  if (check != Check::none) {
    with_json(folder, "golden.json", [&](const auto& golden) {
      with_runtime("golden.json", "refuses its inputs or outputs",
                   [&] { compare_golden(bundle.session, golden); });
    });
  }
  return bundle;
}
