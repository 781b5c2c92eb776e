# SPDX-License-Identifier: Apache-2.0
"""ramp in the candidate interface of side-by-side benchmark harnesses: `make(case)` -> `run(layer)` -> [tokens, d] bf16.

`case` has E, E_local, k, d, h and, for finding a plan, model and layout. `layer` has the tensors hidden, ids, weights, w13,
s13, w2, s2, expert_map (or None), first, and a dict `cache` for us. `run` is called eagerly first, where the layer is made,
and later under graph capture, where it only launches.

A plan is looked for at $RAMP_PLAN_DIR/<model>-<layout>.json; without one the planned default menu runs.
"""

import os
import pathlib
import sys

if not __package__:  # loaded by its path: the package is the folder around it
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

PLAN_VARIABLE = "RAMP_PLAN_DIR"


def plan_path(case, environment=os.environ):
    """The plan's file, or None where there is none."""
    folder = environment.get(PLAN_VARIABLE)
    if not folder:
        return None
    path = pathlib.Path(folder) / ("%s-%s.json" % (case.model, case.layout))
    return path if path.is_file() else None


def make(case):
    import torch

    from ramp.torch import Experts

    plan = plan_path(case)
    workspaces = {}  # by tokens: the layers of a pass run one after the other in one stream, and share one

    def experts_of(layer):
        return Experts(layer.w13, layer.s13, layer.w2, layer.s2, top_k=case.k, experts=case.E,
                       first_expert=layer.first, expert_map=layer.expert_map, plan=plan, allow_compile=True)

    def run(layer):
        experts, tokens = layer.cache.get("ramp"), layer.hidden.shape[0]
        if experts is None:
            experts = layer.cache["ramp"] = experts_of(layer)
        if tokens not in workspaces:
            workspaces[tokens] = experts.make_workspace(tokens)
            torch.cuda.current_stream().synchronize()  # another stream may capture or run next
        return experts(layer.hidden, layer.ids, layer.weights, workspace=workspaces[tokens])

    return run
