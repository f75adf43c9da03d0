// Conditional nodes of a graph: a loop that a kernel ends, two ways, one of several graphs; built by nodes and by
// capture, launched twice. Checks its own results.
#include "check.h"

__device__ int log_length, log_of[64];

__global__ void note(int what) {
  log_of[log_length++] = what;
}

__global__ void count(int *left, cudaGraphConditionalHandle more) {
  log_of[log_length++] = 100 + *left;
  cudaGraphSetConditional(more, --*left > 0);
}

__global__ void choose(cudaGraphConditionalHandle which, const int *value) {
  cudaGraphSetConditional(which, *value);
}

static cudaGraph_t *conditional(cudaGraph_t graph, cudaGraphNode_t *node, const cudaGraphNode_t *after,
                                cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type, int count) {
  cudaGraphNodeParams what = {cudaGraphNodeTypeConditional};
  what.conditional.handle = handle;
  what.conditional.type = type;
  what.conditional.size = count;
  if (cudaGraphAddNode(node, graph, after, nullptr, after ? 1 : 0, &what))
    return nullptr;
  return what.conditional.phGraph_out;
}

static int add(cudaGraph_t graph, int number) {
  cudaGraphNode_t node;
  void *arguments[] = {&number};
  cudaGraphNodeParams what = {cudaGraphNodeTypeKernel};
  what.kernel.func = (void *)note;
  what.kernel.gridDim = what.kernel.blockDim = dim3(1);
  what.kernel.kernelParams = arguments;
  return cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &what);
}

static int logged(const int *want, int length) {
  int got[64], n, zero = 0;
  CHECK(cudaMemcpyFromSymbol(&n, log_length, sizeof n));
  CHECK(cudaMemcpyFromSymbol(got, log_of, sizeof got));
  CHECK(cudaMemcpyToSymbol(log_length, &zero, sizeof zero));
  for (int k = 0; k < length; k++)
    if (n != length || got[k] != want[k])
      return printf("%d of %d: %d\n", k, n, got[k]);
  return 0;
}

static int loop(int *left) {
  cudaGraph_t graph;
  cudaGraphExec_t made;
  cudaGraphNode_t node;
  cudaGraphConditionalHandle more;
  cudaStream_t stream;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphConditionalHandleCreate(&more, graph, 1, cudaGraphCondAssignDefault));
  cudaGraph_t *body = conditional(graph, &node, nullptr, more, cudaGraphCondTypeWhile, 1);
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCaptureToGraph(stream, body[0], nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
  note<<<1, 1, 0, stream>>>(7);
  count<<<1, 1, 0, stream>>>(left, more);
  CHECK(cudaStreamEndCapture(stream, nullptr));
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  for (int round = 0; round < 2; round++) {
    int three = 3, want[] = {7, 103, 7, 102, 7, 101};
    CHECK(cudaMemcpy(left, &three, sizeof three, cudaMemcpyHostToDevice));
    CHECK(cudaGraphLaunch(made, stream));
    if (logged(want, 6))
      return 1;
  }
  return 0;
}

static int ways(int *value, cudaGraphConditionalNodeType type, int bodies, const int (*want)[2]) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  cudaGraphNode_t node;
  cudaGraphConditionalHandle which;
  cudaStreamCaptureStatus status;
  const cudaGraphNode_t *before;
  size_t count;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &before, nullptr, &count));
  CHECK(cudaGraphConditionalHandleCreate(&which, graph));
  choose<<<1, 1, 0, stream>>>(which, value);
  CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &before, nullptr, &count));
  if (count != 1)
    return 1;
  cudaGraph_t *body = conditional(graph, &node, before, which, type, bodies);
  for (int k = 0; k < bodies; k++)
    if (add(body[k], k))
      return 1;
  CHECK(cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1, cudaStreamSetCaptureDependencies));
  note<<<1, 1, 0, stream>>>(9);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  for (int k = 0; k < 4; k++) {
    CHECK(cudaMemcpy(value, &k, sizeof k, cudaMemcpyHostToDevice));
    CHECK(cudaGraphLaunch(made, stream));
    if (logged(want[k] + (want[k][0] == 9), 2 - (want[k][0] == 9)))
      return 1;
  }
  return 0;
}

int main() {
  int *word;
  const int either[][2] = {{1, 9}, {0, 9}, {0, 9}, {0, 9}}, several[][2] = {{0, 9}, {1, 9}, {2, 9}, {9, 9}};
  CHECK(cudaMalloc(&word, sizeof *word));
  cudaGraph_t graph;
  cudaGraphNode_t node;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph));
  bool refused = !conditional(graph, &node, nullptr, handle, cudaGraphCondTypeWhile, 2);
  bool wrong = loop(word) || ways(word, cudaGraphCondTypeIf, 2, either) || ways(word, cudaGraphCondTypeSwitch, 3, several);
  puts(wrong || !refused ? "wrong" : "right");
}
