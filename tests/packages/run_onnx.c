/* Runs ONNX files on Windows by the C interface of ONNX Runtime, with an operator library.
 * Usage: run_onnx ONNXRUNTIME_DLL OPERATOR_DLL JOBS
 * A line of JOBS: MODEL RESULT NUM_OUTPUTS NUM_INPUTS, then for each input NAME TYPE RANK SIZES... FILE.
 * RESULT gets the bytes of the outputs, or `error: ` and a message. */
#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

enum { kMost = 16, kWord = 512 };
static const OrtApi* api;
static const char* const kOutputs[] = {"out0", "out1"};

static const wchar_t* wide(const char* text) {
  static wchar_t buffer[kWord];
  for (size_t i = 0; i < kWord && (buffer[i] = (unsigned char)text[i]) != 0; ++i) continue;
  return buffer;
}

static int report(OrtStatus* status, const char* path) {
  if (status == NULL) return 0;
  FILE* file = fopen(path, "wb");
  fprintf(file, "error: %s", api->GetErrorMessage(status));
  fclose(file);
  api->ReleaseStatus(status);
  return 1;
}

static OrtValue* read_input(FILE* jobs, OrtMemoryInfo* memory, char* name) {
  int type, rank;
  char path[kWord];
  int64_t sizes[kMost], count = 1;
  if (fscanf(jobs, "%511s %d %d", name, &type, &rank) != 3) exit(3);
  for (int i = 0; i < rank; ++i) {
    if (fscanf(jobs, "%lld", &sizes[i]) != 1) exit(3);
    count *= sizes[i];
  }
  if (fscanf(jobs, "%511s", path) != 1) exit(3);
  const size_t bytes = (size_t)count * (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ? 8 : 4);
  void* data = malloc(bytes + 1);
  FILE* file = fopen(path, "rb");
  if (fread(data, 1, bytes, file) != bytes) exit(3);
  fclose(file);
  OrtValue* value = NULL;
  if (api->CreateTensorWithDataAsOrtValue(memory, data, bytes, sizes, (size_t)rank, type, &value)) exit(3);
  return value;
}

static void write_outputs(OrtValue** values, int count, const char* path) {
  FILE* file = fopen(path, "wb");
  for (int i = 0; i < count; ++i) {
    OrtTensorTypeAndShapeInfo* info;
    ONNXTensorElementDataType type;
    size_t elements;
    void* data;
    if (api->GetTensorTypeAndShape(values[i], &info) || api->GetTensorElementType(info, &type)) exit(3);
    if (api->GetTensorShapeElementCount(info, &elements) || api->GetTensorMutableData(values[i], &data))
      exit(3);
    fwrite(data, type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ? 8 : 4, elements, file);
  }
  fclose(file);
}

static void run_job(FILE* jobs, const char* model, OrtEnv* env, OrtSessionOptions* options,
                    OrtMemoryInfo* memory) {
  char result[kWord], names[kMost][kWord];
  const char* pointers[kMost];
  int num_outputs, num_inputs;
  OrtValue *inputs[kMost], *outputs[2] = {NULL, NULL};
  if (fscanf(jobs, "%511s %d %d", result, &num_outputs, &num_inputs) != 3) exit(3);
  for (int i = 0; i < num_inputs; ++i) inputs[i] = read_input(jobs, memory, names[i]), pointers[i] = names[i];
  OrtSession* session = NULL;
  if (report(api->CreateSession(env, wide(model), options, &session), result)) return;
  OrtStatus* status = api->Run(session, NULL, pointers, (const OrtValue* const*)inputs, (size_t)num_inputs,
                               kOutputs, (size_t)num_outputs, outputs);
  if (!report(status, result)) write_outputs(outputs, num_outputs, result);
  api->ReleaseSession(session);
}

int main(int argc, char** argv) {
  HMODULE runtime = argc == 4 ? LoadLibraryA(argv[1]) : NULL;
  if (runtime == NULL) return printf("cannot load onnxruntime.dll: error %lu\n", GetLastError()), 2;
  const OrtApiBase* (*base)(void) =
      (const OrtApiBase* (*)(void))(void*)GetProcAddress(runtime, "OrtGetApiBase");
  api = base()->GetApi(17);
  OrtEnv* env;
  OrtSessionOptions* options;
  OrtMemoryInfo* memory;
  if (api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "run_onnx", &env)) return 2;
  if (api->CreateSessionOptions(&options) || api->SetIntraOpNumThreads(options, 1)) return 2;
  if (api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory)) return 2;
  OrtStatus* status = api->RegisterCustomOpsLibrary_V2(options, wide(argv[2]));
  if (status != NULL) return puts(api->GetErrorMessage(status)), 2;
  char model[kWord];
  FILE* jobs = fopen(argv[3], "r");
  while (fscanf(jobs, "%511s", model) == 1) run_job(jobs, model, env, options, memory);
  puts("done");
  fflush(stdout);
  return 0;
}
