# SPDX-License-Identifier: Apache-2.0
"""ramp: choose and run the fastest MoE expert kernel for the routing that each GPU really received.

This package is a thin layer over the C library (include/ramp/ramp.h); importing it loads nothing.
`ramp.torch.Experts` runs a layer on PyTorch tensors.
"""

from ._lib import Error, version

__all__ = ["Error", "version"]
