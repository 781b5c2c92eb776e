// SPDX-License-Identifier: Apache-2.0
#include "gpu/stream.hpp"

#include <utility>
#include <vector>

namespace ramp::gpu {

Stream::Stream() {
  check(driver().cuStreamCreate(&handle_, cu::kStreamNonBlocking), "creating a stream");
}

Stream::~Stream() {
  if (handle_) driver().cuStreamDestroy_v2(handle_);
}

Stream::Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

void Stream::synchronize() const { gpu::synchronize(handle_); }

bool Stream::idle() const {
  const CUresult result = driver().cuStreamQuery(handle_);
  if (result == cu::kNotReady) return false;
  check(result, "asking whether a stream is idle");
  return true;
}

void Stream::wait(Event& event) const {
  check(driver().cuStreamWaitEvent(handle_, event.handle(), 0), "waiting for an event in a stream");
}

void synchronize(CUstream stream) {
  check(driver().cuStreamSynchronize(stream), "waiting for a stream");
}

bool is_capturing(CUstream stream) {
  int status = cu::kCaptureStatusNone;
  check(driver().cuStreamIsCapturing(stream, &status), "asking whether a stream is captured");
  return status != cu::kCaptureStatusNone;
}

Event::Event() { check(driver().cuEventCreate(&handle_, 0), "creating an event"); }

Event::~Event() {
  if (handle_) driver().cuEventDestroy_v2(handle_);
}

Event::Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

void Event::record(CUstream stream) {
  check(driver().cuEventRecord(handle_, stream), "recording an event");
}

void Event::synchronize() const {
  check(driver().cuEventSynchronize(handle_), "waiting for an event");
}

double elapsed_us(const Event& start, const Event& end) {
  end.synchronize();
  float milliseconds = 0;
  check(driver().cuEventElapsedTime(&milliseconds, start.handle(), end.handle()),
        "reading the time of events");
  return 1e3 * milliseconds;
}

void Graph::begin_capture(CUstream stream) {
  // Thread-local: another thread of the process may go on allocating and copying.
  check(driver().cuStreamBeginCapture_v2(stream, cu::kCaptureThreadLocal), "starting a capture");
}

Graph Graph::end_capture(CUstream stream) {
  CUgraph graph = nullptr;
  check(driver().cuStreamEndCapture(stream, &graph), "ending a capture");
  return Graph(graph);
}

Graph Graph::capture(CUstream stream, const std::function<void()>& body) {
  begin_capture(stream);
  try {
    body();
  } catch (...) {
    CUgraph dropped = nullptr;
    if (driver().cuStreamEndCapture(stream, &dropped) == cu::kSuccess && dropped)
      driver().cuGraphDestroy(dropped);
    throw;
  }
  return end_capture(stream);
}

Graph::Graph(CUgraph graph) : graph_(graph) {
  try {
    check(driver().cuGraphGetNodes(graph_, nullptr, &nodes_), "counting the nodes of a graph");
    std::vector<CUgraphNode> nodes(nodes_);
    if (nodes_)
      check(driver().cuGraphGetNodes(graph_, nodes.data(), &nodes_),
            "reading the nodes of a graph");
    for (CUgraphNode node : nodes) {
      int type = -1;
      check(driver().cuGraphNodeGetType(node, &type), "reading the type of a graph node");
      kernel_nodes_ += type == cu::kGraphNodeKernel;
    }
    check(driver().cuGraphInstantiateWithFlags(&exec_, graph_, 0), "instantiating a graph");
  } catch (...) {
    driver().cuGraphDestroy(graph_);
    throw;
  }
}

Graph::~Graph() {
  if (exec_) driver().cuGraphExecDestroy(exec_);
  if (graph_) driver().cuGraphDestroy(graph_);
}

Graph::Graph(Graph&& other) noexcept
    : graph_(std::exchange(other.graph_, nullptr)),
      exec_(std::exchange(other.exec_, nullptr)),
      nodes_(other.nodes_),
      kernel_nodes_(other.kernel_nodes_) {}

void Graph::upload(CUstream stream) const {
  check(driver().cuGraphUpload(exec_, stream), "uploading a graph");
}

void Graph::launch(CUstream stream) const {
  check(driver().cuGraphLaunch(exec_, stream), "launching a graph");
}

}  // namespace ramp::gpu
