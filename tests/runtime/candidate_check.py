# SPDX-License-Identifier: Apache-2.0
"""usage: candidate_check.py PACKAGE_FOLDER     checks ramp/peers_candidate.py with stand-ins for PyTorch and the library"""
import importlib.util
import pathlib
import sys
import tempfile
import types

package = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(package))
synchronised = []
torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(
    current_stream=lambda: types.SimpleNamespace(synchronize=lambda: synchronised.append(1)))
sys.modules["torch"] = torch

made, workspaces, launched = [], [], []


class Experts:
    def __init__(self, *weights, **options):
        made.append(options)

    def make_workspace(self, tokens):
        workspaces.append(tokens)
        return "workspace of %d" % tokens

    def __call__(self, hidden, ids, gates, workspace):
        launched.append((hidden.shape[0], workspace))
        return hidden


sys.modules["ramp.torch"] = types.SimpleNamespace(Experts=Experts)
spec = importlib.util.spec_from_file_location("candidate", package / "ramp" / "peers_candidate.py")
candidate = importlib.util.module_from_spec(spec)  # by its path, as a harness loads it
spec.loader.exec_module(candidate)


def layer(tokens):
    tensors = dict.fromkeys(("ids", "weights", "w13", "s13", "w2", "s2", "expert_map"))
    return types.SimpleNamespace(hidden=types.SimpleNamespace(shape=(tokens, 256)), first=16, cache={}, **tensors)


case = types.SimpleNamespace(model="olmoe", layout="ep8", E=64, E_local=8, k=8, d=2048, h=1024, ranks=8)
run = candidate.make(case)
layers = [layer(16), layer(16), layer(64)]
for _ in range(3):
    for one in layers:
        assert run(one) is one.hidden
assert len(made) == 3 and len(launched) == 9, "a layer object is made once"
assert workspaces == [16, 64] and len(synchronised) == 2, "layers of one size share a workspace"
assert launched[-1] == (64, "workspace of 64"), launched[-1]
assert made[0]["experts"] == 64 and made[0]["top_k"] == 8 and made[0]["first_expert"] == 16 and made[0]["plan"] is None

with tempfile.TemporaryDirectory() as folder:
    there = {candidate.PLAN_VARIABLE: folder}
    assert candidate.plan_path(case, {}) is None and candidate.plan_path(case, there) is None
    plan = pathlib.Path(folder) / "olmoe-ep8.json"
    plan.write_text("{}")
    assert candidate.plan_path(case, there) == plan
print("candidate: 5 checks passed")
