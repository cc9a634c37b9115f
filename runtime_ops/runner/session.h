// A model in ONNX Runtime, by its C interface, which is loaded at run time. The program therefore builds and
// starts without the library, and runs with the version beside the app.
#ifndef EDGE_EMBED_RUNNER_SESSION_H_
#define EDGE_EMBED_RUNNER_SESSION_H_

#include <onnxruntime_c_api.h>

#include <string>
#include <vector>

#include "runner/tensors.h"

namespace edge_embed::runner {

class Runtime {
 public:
  // Throws std::runtime_error if the library cannot be loaded or is older than 1.17.
  explicit Runtime(const std::string& path);

  // Throws std::runtime_error with the message of a failed status, and releases it.
  void Check(OrtStatus* status) const;

  const OrtApi& api() const { return *api_; }
  const std::string& version() const { return version_; }

 private:
  const OrtApi* api_ = nullptr;
  std::string version_;
};

// The inputs of a case, ready to run, and the outputs of its last run.
class Case {
 public:
  Case(const Runtime& runtime, std::vector<NamedTensor> inputs, const std::vector<std::string>& output_names);
  ~Case();
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  // Later runs write into the outputs of the first run.
  void Run(OrtSession* session);
  std::vector<NamedTensor> Outputs() const;

 private:
  const Runtime& runtime_;
  std::vector<NamedTensor> inputs_;  // the data of the values below
  std::vector<std::string> output_names_;
  std::vector<const char*> input_pointers_, output_pointers_;
  std::vector<OrtValue*> values_, results_;
};

class Session {
 public:
  // `libraries` contain operators of the model. The runtime selects the number of threads if `threads` is 0.
  Session(const Runtime& runtime, const std::string& model, const std::vector<std::string>& libraries,
          int threads);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  OrtSession* get() const { return session_; }
  std::vector<std::string> OutputNames() const;

 private:
  const Runtime& runtime_;
  OrtEnv* env_ = nullptr;
  OrtSession* session_ = nullptr;
};

}  // namespace edge_embed::runner

#endif  // EDGE_EMBED_RUNNER_SESSION_H_
