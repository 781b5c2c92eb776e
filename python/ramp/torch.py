# SPDX-License-Identifier: Apache-2.0
"""A layer on PyTorch tensors: checks them, passes their addresses and the current stream, and nothing else."""

import torch

from . import _lib

_FP8 = torch.float8_e4m3fn


def _require(name, tensor, dtype, shape, device=None, contiguous=True):
    """Raises Error where a kernel would read something else than the caller means."""
    for what, got, want in (
        ("dtype", tensor.dtype, dtype),
        ("shape", tuple(tensor.shape), tuple(shape)),
        ("device", str(tensor.device), str(device) if device is not None else str(tensor.device)),
        ("contiguous", tensor.is_contiguous() or not contiguous, True),
    ):
        if got != want:
            hint = ""
            if what == "dtype" and not want.is_floating_point and not got.is_floating_point:
                hint = "; next: .to(%s)" % want
            raise _lib.Error("%s.%s: got %s; allowed: %s%s" % (name, what, got, want, hint))


class Experts:
    """The experts of one MoE layer on one GPU.

    w13 [E_local, 2h, d] and w2 [E_local, d, h] in float8_e4m3fn, gate rows before up rows; s13 and s2 one float32 scale
    a 128 x 128 block of them. They are read in place: changing them changes the layer.

    __call__(hidden [tokens, d] bf16, ids [tokens, k] int32, gates [tokens, k] float32) -> [tokens, d] bf16. It launches two
    kernels on the current stream and can be captured. Workspaces are kept by stream and grow when a call is larger than
    any before, so call once with the largest batch before capturing, or pass `workspace`.

    hidden may be float8_e4m3fn with `scales` [tokens, d / 128] float32 of any strides: nothing is quantised then.
    `grouped` takes rows that stand grouped by expert already, as all-to-all kernels deliver them.
    """

    def __init__(self, w13, s13, w2, s2, *, top_k, experts=None, first_expert=0, expert_map=None, plan=None, menu=None,
                 allow_compile=False, allow_foreign_gpu=False, cache_dir=None):
        local, d, h = w13.shape[0], w13.shape[-1], w2.shape[-1]
        if not w13.is_cuda:
            raise _lib.Error("w13.device: got %s; allowed: a CUDA device" % w13.device)
        _require("w13", w13, _FP8, (local, 2 * h, d))
        _require("s13", s13, torch.float32, (local, 2 * h // 128, d // 128), w13.device)
        _require("w2", w2, _FP8, (local, d, h), w13.device)
        _require("s2", s2, torch.float32, (local, d // 128, h // 128), w13.device)
        self.device, self.hidden, self.top_k = w13.device, d, top_k
        self._tensors = (w13, s13, w2, s2)  # alive as long as the layer reads them
        if torch.is_tensor(expert_map):
            expert_map = expert_map.tolist()
        with torch.cuda.device(self.device):
            torch.cuda.current_stream()  # the context exists and is current
            self.layer = _lib.Layer(
                dict(zip(("w13", "s13", "w2", "s2"), (t.data_ptr() for t in self._tensors))),
                experts=local if experts is None else experts, local_experts=local, top_k=top_k, hidden=d, intermediate=h,
                first_expert=first_expert, expert_map=expert_map, plan=plan, menu=menu, allow_compile=allow_compile,
                allow_foreign_gpu=allow_foreign_gpu, cache_dir=cache_dir)
        self._workspaces = {}

    def make_workspace(self, tokens):
        """Memory for calls of up to `tokens` tokens, of one stream at a time."""
        return self._make_workspace(self.layer.workspace_bytes(tokens), "%d tokens" % tokens)

    def _make_workspace(self, size, what):
        if torch.cuda.is_current_stream_capturing():
            raise _lib.Error("workspace: none for %s while capturing; next: make the same call once before the capture, "
                             "or pass workspace=make_workspace(tokens)" % what)
        workspace = torch.empty(size, dtype=torch.uint8, device=self.device)
        self.layer.init_workspace(workspace.data_ptr(), torch.cuda.current_stream(self.device).cuda_stream)
        return workspace

    def _workspace(self, size, what, stream):
        kept = self._workspaces.setdefault(stream, [])
        if not kept or kept[-1].numel() < size:
            kept.append(self._make_workspace(size, what))  # smaller ones stay: a captured graph may name them
        return kept[-1]

    def __call__(self, hidden, ids, gates=None, *, scales=None, out=None, workspace=None, entry=None, prefill=None):
        tokens = hidden.shape[0]
        self._require_rows("hidden", hidden, scales, (tokens, self.hidden))
        _require("ids", ids, torch.int32, (tokens, self.top_k), self.device)
        if gates is not None:
            _require("gates", gates, torch.float32, (tokens, self.top_k), self.device)
        return self._run(hidden, scales, gates, out, workspace, entry, prefill, tokens=tokens, ids=ids.data_ptr())

    def grouped(self, rows, counts, gates=None, *, scales=None, expected_rows=0, out=None, workspace=None, entry=None,
                prefill=None):
        """Rows that stand grouped by local expert, results in the same places, nothing combined.

        rows: [rows, d], expert after expert, or in slots [E_local, slots, d], of which the first counts[e] of expert e are
        there; bf16, or float8_e4m3fn with scales [rows, d / 128] or [E_local, slots, d / 128] float32 of any strides.
        counts [E_local] int32. gates: by row, float32 [rows] or [E_local, slots]. expected_rows: how many there will be,
        where that is known; it picks the menu and what is asked for ahead. Returns bf16 of rows' shape; slots that nobody
        fills keep what `out` had, and are undefined without `out`.
        """
        experts, slots = self._tensors[0].shape[0], rows.shape[1] if rows.dim() == 3 else 0
        shape = (experts, slots, self.hidden) if rows.dim() == 3 else (rows.shape[0], self.hidden)
        self._require_rows("rows", rows, scales, shape)
        _require("counts", counts, torch.int32, (experts,), self.device)
        if gates is not None:
            _require("gates", gates, torch.float32, shape[:-1], self.device)
        return self._run(rows, scales, gates, out, workspace, entry, prefill, tokens=rows.numel() // self.hidden,
                         ready_counts=counts.data_ptr(), slots=slots, expected_rows=expected_rows)

    def _require_rows(self, name, rows, scales, shape):
        _require(name, rows, torch.bfloat16 if scales is None else _FP8, shape, self.device)
        if scales is not None:
            _require("scales", scales, torch.float32, shape[:-1] + (self.hidden // 128,), self.device, contiguous=False)

    def _run(self, rows, scales, gates, out, workspace, entry, prefill, **fields):
        if out is None:
            out = torch.empty(rows.shape, dtype=torch.bfloat16, device=self.device)
        else:
            _require("out", out, torch.bfloat16, rows.shape, self.device)
        if rows.numel() == 0:
            return out
        if scales is not None:
            strides = scales.stride() if scales.dim() == 3 else (0,) + scales.stride()
            fields.update(hidden_scales=scales.data_ptr(), scale_strides=strides)
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream().cuda_stream
            flags = _lib.CALL_FORCE * (entry is not None) | _lib.CALL_PREFILL * (prefill is not None)
            call = _lib.Call(
                flags=flags, entry=entry or 0, prefill=prefill or 0, hidden=rows.data_ptr(),
                gates=None if gates is None else gates.data_ptr(), output=out.data_ptr(), stream=stream, **fields)
            if workspace is None:
                workspace = self._workspace(self.layer.call_workspace_bytes(call), "%d rows" % call.tokens, stream)
            call.workspace, call.workspace_bytes = workspace.data_ptr(), workspace.numel()
            self.layer.forward(call)
        return out

    def counters(self, workspace=None, clear=False):
        """What became of the ids and which entries ran, in a workspace or in the current stream's own."""
        stream = torch.cuda.current_stream(self.device).cuda_stream
        if workspace is None:
            if not self._workspaces.get(stream):
                raise _lib.Error("workspace: this layer has not run in the current stream; next: pass the workspace")
            workspace = self._workspaces[stream][-1]
        with torch.cuda.device(self.device):
            return self.layer.counters(workspace.data_ptr(), stream, clear)
