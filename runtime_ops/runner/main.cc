// edge_embed_runner ONNXRUNTIME MODEL FOLDER ITERATIONS THREADS [LIBRARY...]
//
// Runs a model on the cases in FOLDER, as an app does by the C interface of ONNX Runtime: on this machine,
// under an emulator or on a device. FOLDER contains 0.in, 1.in, ... (tensors.h). The program writes 0.out,
// 1.out, ... and result.json there. Each LIBRARY contains operators of the model: the operator library,
// without which the portable bodies run, and that of onnxruntime-extensions for a tokenizer.
//
// Times are those of creating the session, of the first call (of case 0, cold), and of ITERATIONS further
// calls of case 0. They are wall time of each, and processor time of the process. The program marks the
// addresses of the first library and the end of each call for a counting emulator. The exit status is 0, or 1
// with one line on stderr.
#ifdef __linux__
#include <signal.h>
#include <sys/prctl.h>
#endif

#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "runner/count.h"
#include "runner/count_mark.h"
#include "runner/memory.h"
#include "runner/session.h"
#include "runner/tensors.h"

namespace edge_embed::runner {
namespace {

struct Times {
  int64_t wall_ns = 0, cpu_ns = 0;
};

int64_t CpuNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1'000'000'000 * static_cast<int64_t>(now.tv_sec) + now.tv_nsec;
}

template <typename Work>
Times Measure(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t cpu = CpuNanoseconds();
  work();
  const int64_t cpu_end = CpuNanoseconds();
  const auto wall = std::chrono::steady_clock::now() - start;
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count(), cpu_end - cpu};
}

std::string Json(const Times& times) {
  return "{\"wall_ns\": " + std::to_string(times.wall_ns) + ", \"cpu_ns\": " + std::to_string(times.cpu_ns) +
         "}";
}

std::string CasePath(const std::string& folder, size_t number, const char* suffix) {
  return folder + "/" + std::to_string(number) + suffix;
}

bool Exists(const std::string& path) { return std::ifstream(path).good(); }

struct Options {
  std::string runtime, model, folder;
  int iterations, threads;
  std::vector<std::string> libraries;
};

void Run(const Options& options) {
  const Runtime runtime(options.runtime);
  const int64_t resident_before = MemoryBytes("VmRSS");
  if (!options.libraries.empty()) CountLibrary(options.libraries.front());
  std::unique_ptr<Session> session;
  const Times create = Measure([&] {
    session = std::make_unique<Session>(runtime, options.model, options.libraries, options.threads);
  });
  const std::vector<std::string> names = session->OutputNames();

  std::vector<std::unique_ptr<Case>> cases;
  for (size_t number = 0; Exists(CasePath(options.folder, number, ".in")); ++number) {
    cases.push_back(
        std::make_unique<Case>(runtime, ReadTensors(CasePath(options.folder, number, ".in")), names));
  }
  if (cases.empty()) throw std::runtime_error(options.folder + ": contains no 0.in");
  const Times first = Measure([&] { cases[0]->Run(session->get()); });
  const int64_t resident = MemoryBytes("VmRSS");
  std::string calls;
  Mark();
  for (int number = 0; number < options.iterations; ++number) {
    calls += (number == 0 ? "" : ", ") + Json(Measure([&] { cases[0]->Run(session->get()); }));
    Mark();
  }
  for (size_t number = 0; number < cases.size(); ++number) {
    if (number != 0) cases[number]->Run(session->get());
    WriteTensors(CasePath(options.folder, number, ".out"), cases[number]->Outputs());
  }

  std::ofstream result(options.folder + "/result.json");
  result << "{\"onnxruntime\": \"" << runtime.version() << "\", \"create\": " << Json(create)
         << ", \"first\": " << Json(first) << ", \"calls\": [" << calls
         << "], \"resident_bytes\": " << resident - resident_before
         << ", \"peak_bytes\": " << MemoryBytes("VmHWM") << "}\n";
  result.close();
  if (!result)
    throw std::runtime_error(options.folder + "/result.json: cannot be written; is the disk full?");
}

}  // namespace
}  // namespace edge_embed::runner

int main(int count, char** arguments) {
  if (count < 6) {
    std::fprintf(stderr, "usage: %s ONNXRUNTIME MODEL FOLDER ITERATIONS THREADS [LIBRARY...]\n",
                 arguments[0]);
    return 1;
  }
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a model may never end, and the waiting process may be killed
#endif
  try {
    edge_embed::runner::Run({arguments[1],
                             arguments[2],
                             arguments[3],
                             std::stoi(arguments[4]),
                             std::stoi(arguments[5]),
                             {arguments + 6, arguments + count}});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "edge_embed_runner: %s\n", error.what());
    return 1;
  }
  return 0;
}
