// SPDX-License-Identifier: Apache-2.0
// The worker's end: a process that owns a KernelTimer and does what it is asked, until its channel
// closes.
#pragma once

#include "lab/timer.hpp"

namespace ramp {

// Serves requests that come in on `channel` and writes the replies to it.  Returns when the other
// end is closed.  What a call throws becomes a reply with an error; the campaign decides whether to
// go on with this process.
void serve_worker(KernelTimer& timer, int channel);

// Makes this process a worker: it dies with its parent (a hung kernel would otherwise keep the
// GPU), leaves Ctrl-C to the parent, and whatever the code below prints goes to stderr.  Returns
// the channel.
int become_worker();

}  // namespace ramp
