# SPDX-License-Identifier: Apache-2.0
"""The C interface through ctypes: structs of include/ramp/ramp.h and calls that raise. No torch here.

The library is the file named by RAMP_LIBRARY, else libramp.so beside this package, else the one of a
build directory of the checkout that the package lies in.
"""

import ctypes
import json
import os
import pathlib
import threading

ABI_VERSION = 1
MAX_ENTRIES = 16
LIBRARY_VARIABLE = "RAMP_LIBRARY"

ALLOW_COMPILE, ALLOW_FOREIGN_GPU = 1, 2
CALL_FORCE, CALL_PREFILL, CALL_PREPARE_ONLY, CALL_FFN_ONLY = 1, 2, 4, 8

_Address = ctypes.c_void_p


class Error(RuntimeError):
    """What ramp refused and why; the text names the field, its value, what is allowed and the next step."""


class Theta(ctypes.Structure):
    _fields_ = [(name, ctypes.c_float) for name in ("fixed", "wave", "tile", "expert")]


class _Sized(ctypes.Structure):
    """A struct whose first field is its size; everything else is 0 unless it is given."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(self), **fields)


class LayerOptions(_Sized):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("flags", ctypes.c_uint32),
        ("local_experts", ctypes.c_int32),
        ("top_k", ctypes.c_int32),
        ("hidden", ctypes.c_int32),
        ("intermediate", ctypes.c_int32),
        ("experts", ctypes.c_int32),
        ("first_expert", ctypes.c_int32),
        ("expert_map", ctypes.POINTER(ctypes.c_int32)),
        ("plan_path", ctypes.c_char_p),
        ("plan_text", ctypes.c_char_p),
        ("knobs", ctypes.POINTER(ctypes.c_char_p)),
        ("theta", ctypes.POINTER(Theta)),
        ("num_entries", ctypes.c_int32),
        ("cache_dir", ctypes.c_char_p),
    ]


class Weights(_Sized):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [(n, _Address) for n in ("w13", "s13", "w2", "s2")]


class Call(_Sized):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("flags", ctypes.c_uint32),
        ("tokens", ctypes.c_int32),
        ("entry", ctypes.c_int32),
        ("prefill", ctypes.c_int32),
        ("hidden", _Address),
        ("ids", _Address),
        ("gates", _Address),
        ("ready_counts", _Address),
        ("output", _Address),
        ("workspace", _Address),
        ("workspace_bytes", ctypes.c_size_t),
        ("stream", _Address),
        ("hidden_scales", _Address),
        ("scale_strides", ctypes.c_int64 * 3),
        ("slots", ctypes.c_int32),
        ("expected_rows", ctypes.c_int32),
    ]


class Counters(_Sized):
    _fields_ = (
        [("struct_size", ctypes.c_size_t)]
        + [(n, ctypes.c_uint32) for n in ("passes", "foreign", "padded", "invalid", "duplicate", "nan_gates")]
        + [("entry_runs", ctypes.c_uint32 * MAX_ENTRIES)]
        + [(n, ctypes.c_int32) for n in ("last_entry", "last_rows", "last_tiles")]
    )


def candidates(environment=os.environ):
    """Where the library is looked for, best first."""
    named = environment.get(LIBRARY_VARIABLE)
    if named:
        return [pathlib.Path(named)]
    package = pathlib.Path(__file__).resolve().parent
    checkout = package.parent.parent
    return [package / "libramp.so", package.parent / "libramp.so", checkout / "build" / "libramp.so"]


def _load(environment):
    tried = candidates(environment)
    for path in tried:
        if path.is_file():
            return _declare(ctypes.CDLL(str(path)), path)
    raise Error(
        "libramp.so: not at %s; next: build it (`./ramp-dev build`) or set %s to the file"
        % (", ".join(map(str, tried)), LIBRARY_VARIABLE)
    )


def _declare(library, path):
    library.ramp_abi_version.restype = ctypes.c_int32
    found = library.ramp_abi_version()
    if found != ABI_VERSION:
        raise Error("%s: ABI version %d; allowed: %d; next: build library and package from one commit"
                    % (path, found, ABI_VERSION))
    for name in ("ramp_version", "ramp_last_error"):
        getattr(library, name).restype = ctypes.c_char_p
    handle, out = ctypes.c_void_p, ctypes.POINTER
    for name, parameters in {
        "ramp_layer_create": [out(LayerOptions), out(Weights), out(handle)],
        "ramp_layer_describe": [handle, out(ctypes.c_char_p)],
        "ramp_workspace_bytes": [handle, ctypes.c_int32, out(ctypes.c_size_t)],
        "ramp_call_workspace_bytes": [handle, out(Call), out(ctypes.c_size_t)],
        "ramp_workspace_init": [handle, _Address, _Address],
        "ramp_layer_forward": [handle, out(Call)],
        "ramp_layer_counters": [handle, _Address, _Address, ctypes.c_int32, out(Counters)],
    }.items():
        function = getattr(library, name)
        function.argtypes, function.restype = parameters, ctypes.c_int
    library.ramp_layer_destroy.argtypes, library.ramp_layer_destroy.restype = [handle], None
    return library


_lock, _library = threading.Lock(), None


def library():
    """The loaded library; raises Error where it is not found or of another version."""
    global _library
    with _lock:
        if _library is None:
            _library = _load(os.environ)
        return _library


def version():
    """The library's version and commit."""
    return library().ramp_version().decode()


def check(status):
    if status != 0:
        raise Error(library().ramp_last_error().decode(errors="replace"))


class Layer:
    """One ramp_layer. Arguments are plain numbers: device addresses, sizes, a stream handle."""

    def __init__(self, weights, *, experts, local_experts=0, top_k=0, hidden=0, intermediate=0, first_expert=0,
                 expert_map=None, plan=None, menu=None, allow_compile=False, allow_foreign_gpu=False, cache_dir=None):
        """weights: {"w13": address, "s13": ..., "w2": ..., "s2": ...}.

        plan: a path, or the text of a plan. menu: [(knobs as JSON text, (fixed, wave, tile, expert))]. With neither, the
        planned default menu. What is 0 of the shape is the plan's.
        """
        self._handle = ctypes.c_void_p()
        options = LayerOptions(
            flags=ALLOW_COMPILE * bool(allow_compile) | ALLOW_FOREIGN_GPU * bool(allow_foreign_gpu),
            local_experts=local_experts, top_k=top_k, hidden=hidden, intermediate=intermediate,
            experts=experts, first_expert=first_expert)
        if expert_map is not None:
            if len(expert_map) != experts:  # the library reads as many as there are experts
                raise Error("expert_map: got %d entries; allowed: %d, one an expert" % (len(expert_map), experts))
            options.expert_map = (ctypes.c_int32 * experts)(*expert_map)
        if plan is not None:
            text = str(plan)
            setattr(options, "plan_text" if text.lstrip().startswith("{") else "plan_path", text.encode())
        if menu is not None:
            options.num_entries = len(menu)
            options.knobs = (ctypes.c_char_p * len(menu))(*(knobs.encode() for knobs, _ in menu))
            options.theta = (Theta * len(menu))(*(Theta(*theta) for _, theta in menu))
        if cache_dir is not None:
            options.cache_dir = os.fsencode(cache_dir)
        self._library = library()
        check(self._library.ramp_layer_create(options, Weights(**weights), self._handle))

    def close(self):
        """Frees the layer; nothing of it may still run."""
        if self._handle:
            self._library.ramp_layer_destroy(self._handle)
            self._handle = ctypes.c_void_p()

    def __del__(self):
        if getattr(self, "_handle", None) and getattr(self, "_library", None):
            self.close()

    def describe(self):
        text = ctypes.c_char_p()
        check(self._library.ramp_layer_describe(self._handle, text))
        return json.loads(text.value)

    def workspace_bytes(self, tokens):
        size = ctypes.c_size_t()
        check(self._library.ramp_workspace_bytes(self._handle, tokens, size))
        return size.value

    def call_workspace_bytes(self, call):
        """Of one call, which may need less than any of its tokens."""
        size = ctypes.c_size_t()
        check(self._library.ramp_call_workspace_bytes(self._handle, call, size))
        return size.value

    def init_workspace(self, workspace, stream):
        check(self._library.ramp_workspace_init(self._handle, workspace, stream))

    def forward(self, call):
        check(self._library.ramp_layer_forward(self._handle, call))

    def counters(self, workspace, stream, clear=False):
        """A dict; waits for the stream."""
        found = Counters()
        check(self._library.ramp_layer_counters(self._handle, workspace, stream, int(clear), found))
        result = {name: getattr(found, name) for name, *_ in Counters._fields_[1:]}
        result["entry_runs"] = list(result["entry_runs"])[: len(self.describe()["menu"])]
        return result
