#include "tflite/graph.h"

namespace edge_embed::tflite {
namespace {

// Flags of a tensor while the operators are visited from the last to the first.
enum Mark : unsigned char {
  kNeeded = 1,         // read by a replaced operator, or an output of the use
  kNeededOutside = 2,  // read by an operator that stays
  kGiven = 4,          // an input of the use, or a constant
  kWritten = 8,        // an output of the use
  kMade = 16           // written by a replaced operator
};

template <size_t size>
bool Has(const int (&tensors)[size], int tensor) {
  for (const int other : tensors) {
    if (other == tensor) return true;
  }
  return false;
}

void MarkTensors(const Context& context, const Use& use, unsigned char* marks) {
  for (size_t i = 0; i < context.tensors_size; ++i) {
    const int tensor = static_cast<int>(i);
    if (context.tensors[i].allocation_type == kConstant || Has(use.inputs, tensor)) marks[i] |= kGiven;
    if (Has(use.outputs, tensor)) marks[i] |= kWritten | kNeeded;
  }
}

// True if the use needs a result of this operator, and no other operator needs one, except an output of the
// use.
bool Takes(const Node& node, const unsigned char* marks) {
  bool needed = false;
  for (int i = 0; i < node.outputs->size; ++i) {
    if (node.outputs->data[i] < 0) continue;  // an absent optional tensor
    const unsigned char mark = marks[node.outputs->data[i]];
    needed |= (mark & kNeeded) != 0;
    if ((mark & kNeededOutside) != 0 && (mark & kWritten) == 0) return false;
  }
  return needed;
}

void MarkNode(const Node& node, bool taken, unsigned char* marks) {
  for (int i = 0; taken && i < node.outputs->size; ++i) {
    if (node.outputs->data[i] >= 0) marks[node.outputs->data[i]] |= kMade;
  }
  for (int i = 0; i < node.inputs->size; ++i) {
    const int input = node.inputs->data[i];
    if (input < 0) continue;  // an absent optional tensor
    if (!taken) {
      marks[input] |= kNeededOutside;
    } else if ((marks[input] & kGiven) == 0) {
      marks[input] |= kNeeded;
    }
  }
}

// Writes the operators to `nodes`, which has room for the whole plan.
Status Collect(Context* context, const IntArray& plan, unsigned char* marks, IntArray* nodes) {
  nodes->size = 0;
  for (int i = plan.size - 1; i >= 0; --i) {
    Node* node = nullptr;
    Registration* registration = nullptr;
    const Status status = context->GetNodeAndRegistration(context, plan.data[i], &node, &registration);
    if (status != kOk) return status;
    const bool taken = Takes(*node, marks);
    if (taken) nodes->data[nodes->size++] = plan.data[i];
    MarkNode(*node, taken, marks);
  }
  return kOk;
}

bool Contains(const IntArray& tensors, int tensor) {
  for (int i = 0; i < tensors.size; ++i) {
    if (tensors.data[i] == tensor) return true;
  }
  return false;
}

// The runtime splits operators if others must run between them. It keeps tensors for a kernel that only its
// operators read.
bool IsOneKernel(Context* context, const Use& use, const IntArray* nodes) {
  DelegateParams* partitions = nullptr;
  int count = 0;
  if (context->PreviewDelegatePartitioning(context, nodes, &partitions, &count) != kOk || count != 1)
    return false;
  for (int i = 0; i < partitions->output_tensors->size; ++i) {
    if (!Has(use.outputs, partitions->output_tensors->data[i])) return false;
  }
  for (const int input : use.inputs) {
    if (input == kNoTensor || TensorAt(context, input).allocation_type == kConstant) continue;
    if (!Contains(*partitions->input_tensors, input)) return false;
  }
  return true;
}

// A tensor that no operator computes cannot be replaced.
Status CheckOutputs(Context* context, const Use& use, const unsigned char* marks) {
  for (const int output : use.outputs) {
    if (output == kNoTensor) continue;
    if ((marks[output] & kMade) != 0 && (marks[output] & kGiven) == 0) continue;
    context->ReportError(context,
                         "edge_embed: got an output %s that no operator computes, expected a computed one%s",
                         TensorAt(context, output).name, kDamaged);
    return kError;
  }
  return kOk;
}

}  // namespace

IntArray* FindNodes(Context* context, const Use& use, Status* status) {
  IntArray* plan = nullptr;
  *status = context->GetExecutionPlan(context, &plan);
  if (*status != kOk) return nullptr;
  auto* const marks = static_cast<unsigned char*>(calloc(context->tensors_size, 1));
  auto* nodes = static_cast<IntArray*>(malloc(sizeof(int) * (static_cast<size_t>(plan->size) + 1)));
  *status = marks == nullptr || nodes == nullptr ? kError : kOk;
  if (*status == kOk) {
    MarkTensors(*context, use, marks);
    *status = Collect(context, *plan, marks, nodes);
  }
  if (*status == kOk) *status = CheckOutputs(context, use, marks);
  free(marks);
  if (*status == kOk && IsOneKernel(context, use, nodes)) return nodes;
  free(nodes);
  return nullptr;
}

}  // namespace edge_embed::tflite
