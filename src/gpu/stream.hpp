// SPDX-License-Identifier: Apache-2.0
// Order and time: streams, events and captured graphs.  Everything that takes a stream takes the
// driver's handle, so a stream of the caller (PyTorch's, a C program's) serves as well as ours;
// nullptr is the default stream.
#pragma once

#include <cstddef>
#include <functional>

#include "gpu/driver.hpp"

namespace ramp::gpu {

// A stream of its own that doesn't wait for the default stream.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator CUstream() const { return handle_; }
  void synchronize() const;
  bool idle() const;                    // all work done; throws when a kernel faulted
  void wait(class Event& event) const;  // later work of this stream starts after the event

 private:
  CUstream handle_ = nullptr;
};

// Waits for the work of any stream; faults of its kernels surface here.
void synchronize(CUstream stream);
bool is_capturing(CUstream stream);

class Event {
 public:
  Event();
  ~Event();
  Event(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(CUstream stream);
  void synchronize() const;
  CUevent handle() const { return handle_; }

 private:
  CUevent handle_ = nullptr;
};

// Microseconds between two recorded events; waits for the second.  Resolution about 0.5 us, so time
// many launches.
double elapsed_us(const Event& start, const Event& end);

// A captured and instantiated graph.
class Graph {
 public:
  // Captures what `body` puts into `stream`.  When body throws, the capture is ended and dropped
  // and the stream stays usable.
  static Graph capture(CUstream stream, const std::function<void()>& body);

  // The same in two halves.
  static void begin_capture(CUstream stream);
  static Graph end_capture(CUstream stream);

  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void upload(CUstream stream) const;  // takes the first launch's set-up cost now
  void launch(CUstream stream) const;
  std::size_t kernel_nodes() const { return kernel_nodes_; }
  std::size_t nodes() const { return nodes_; }

 private:
  explicit Graph(CUgraph graph);
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  std::size_t nodes_ = 0, kernel_nodes_ = 0;
};

}  // namespace ramp::gpu
