#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times vLLM's Triton MoE kernel, every configuration on many loads, as a table for `ramp profile import`.

usage: vllm_table.py --harness DIR --payload FILE --loads DIR --case MODEL:LAYOUT [--case ...] --out DIR
       vllm_table.py --simulate --harness DIR --loads DIR --case ... --out DIR     no GPU: the table's form with made-up times

The harness is a folder with bench_peers.py, peers.py and moe_cases.py, which know how to call vLLM's layer on tensors of ours;
the payload is vLLM's code, packed; loads are routing files MODEL.NAME.npz of the same harness.  One table a case:
OUT/vllm-MODEL-LAYOUT.csv (docs/foreign-kernels.md says what its columns are).

A configuration is captured once a pass size, as a graph of a few layers that all read their expert ids from one tensor and have
weights of their own; for another load the tensor is overwritten and the same graph replayed, as serving does.  So a load costs
replays and nothing else, and hundreds fit into minutes.
"""
import argparse
import math
import os
import random
import subprocess
import sys
import time

# BLOCK_SIZE_M, BLOCK_SIZE_N, GROUP_SIZE_M, num_warps, num_stages; BLOCK_SIZE_K is 128, that of the scales.  Out of the space of
# vLLM's tuner and with narrower tiles beside it: those that won anywhere in a sweep of eight models, and their neighbours.
CONFIGS = [
    (16, 32, 1, 4, 4), (16, 64, 1, 4, 3), (16, 64, 1, 4, 4), (16, 128, 1, 4, 3), (16, 128, 1, 4, 4), (16, 128, 32, 4, 3),
    (16, 256, 1, 8, 3),
    (32, 64, 1, 4, 3), (32, 64, 1, 4, 4), (32, 64, 32, 4, 4), (32, 128, 1, 4, 3), (32, 128, 1, 4, 4), (32, 128, 16, 4, 3),
    (32, 256, 1, 8, 3),
    (64, 64, 1, 4, 3), (64, 128, 1, 4, 2), (64, 128, 1, 4, 3), (64, 128, 1, 4, 4), (64, 128, 16, 4, 3), (64, 128, 16, 4, 4),
    (64, 128, 32, 4, 3), (64, 128, 1, 8, 3), (64, 256, 1, 8, 3), (64, 256, 16, 8, 3),
    (128, 64, 16, 4, 3), (128, 128, 1, 8, 3), (128, 128, 16, 8, 3), (128, 128, 16, 8, 4), (128, 128, 32, 4, 3),
    (128, 256, 16, 8, 3),
]
KNOBS = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "GROUP_SIZE_M", "num_warps", "num_stages")
BLOCK_K = 128

# Passes of train, test and uniform routing that have been timed after each turn over all cases and sizes: breadth first, so
# that a limit leaves every case with a little instead of some with nothing.
TURNS = [(4, 4, 2), (8, 8, 4), (16, 16, 8)]
RANKS_OF = {"train": 3, "test": 2, "uniform": 1}  # the heaviest, the second, the middle one

SLOW = 1.3         # times the fastest on a size's first load; such a configuration gets two samples from then on, one a half
COLD_BYTES = 160e6  # of weights between two reads of one byte: three times the L2


# ---------------------------------------------------------------- what a configuration is
def knobs_of(config):
    return dict(zip(KNOBS, config), BLOCK_SIZE_K=BLOCK_K)


def config_of(knobs):
    if min(knobs["BLOCK_SIZE_K"], BLOCK_K) != BLOCK_K:  # a larger one is cut to the scales' block by vLLM
        raise ValueError("BLOCK_SIZE_K = %d: only %d is timed here" % (knobs["BLOCK_SIZE_K"], BLOCK_K))
    return tuple(knobs[name] for name in KNOBS)


def label_of(config):
    return "m%d-n%d-g%d-w%d-s%d" % config


def resident_blocks(config, shared_bytes=None, registers=None):
    """Blocks that an SM of an H100 or H200 holds; without the compiler's figures by what the tiles need."""
    m, n, _, warps, stages = config
    if shared_bytes is None:
        shared_bytes = stages * (m + n) * BLOCK_K
    if registers is None:  # two accumulators, one inside and one over the blocks of scales, and what else there is
        registers = min(255, 2 * m * n // (32 * warps) + 48)
    by_shared = (227 << 10) // (shared_bytes + 1024)
    by_registers = 65536 // (-(-registers // 8) * 8 * 32 * warps)
    return max(1, min(by_shared, by_registers, 64 // warps, 32))


def grid_of(config, hidden, intermediate, resident, sms=132):
    """Eq. 1's view: gate and up together, then down; both with the same tiles."""
    m, n = config[:2]
    slots = resident * sms
    return "%dx%dx%d+%dx%dx%d" % (m, -(-2 * intermediate // n), slots, m, -(-hidden // n), slots)


# ---------------------------------------------------------------- the table
class Table:
    """One case's file.  Grid and knobs stand on the first line of a configuration; a point is written at once, so that a cut
    leaves whole lines."""
    COLUMNS = ("config", "grid", "knobs", "tokens", "role", "pass", "gpu", "domain", "load", "us")

    def __init__(self, path, notes, shipped):
        self.path, self.known = path, set()
        lines = ["# %s: %s" % (key, value) for key, value in notes]
        lines += ["# shipped %d: %s" % (tokens, label) for tokens, label in sorted(shipped.items())]
        with open(path, "w") as file:
            file.write("\n".join(lines) + "\n" + ",".join(self.COLUMNS) + "\n")

    def add(self, lines):
        """lines: (config, grid, load, [us]) each, load as of loads_of"""
        text = []
        for config, grid, load, us in lines:
            label = label_of(config)
            first = label not in self.known
            self.known.add(label)
            knobs = " ".join("%s=%d" % item for item in knobs_of(config).items()) if first else ""
            text.append(",".join([label, grid if first else "", knobs, str(load["tokens"]), load["role"], load["pass"],
                                  str(load["gpu"]), load["domain"], " ".join(map(str, load["counts"])),
                                  " ".join("%.3f" % t for t in us)]) + "\n")
        with open(self.path, "a") as file:
            file.write("".join(text))


# ---------------------------------------------------------------- loads
def routed_passes(mc, case, source, tokens, folder):
    """[(role, name, ids [tokens, k])], test passes of other requests than train passes."""
    import numpy as np
    path = os.path.join(folder, "%s.%s.npz" % (case.model, source))
    if not os.path.exists(path):
        raise SystemExit("%s: no such file; allowed: MODEL.NAME.npz of the harness; next: make them with its make_loads.py" % path)
    routing = np.load(path)
    passes = []
    if "T%d" % tokens in routing.files:  # a pass a layer, each of requests of its own; domains take turns, four of them
        for layer, ids in enumerate(routing["T%d" % tokens]):
            passes.append(("test" if layer // 4 % 2 else "train", "%s-%d-%d" % (source, tokens, layer), ids))
    elif "ids" in routing.files:  # one trace, tokens in the order of their requests: its halves
        trace = routing["ids"]
        half = trace.shape[1] // 2
        rng = np.random.default_rng(tokens)
        for number in range(2 * TURNS[-1][0] if half >= tokens else 0):
            role, begin = ("train", 0) if number % 2 == 0 else ("test", trace.shape[1] - half)
            pick = (rng.choice(half, tokens, replace=False) if tokens <= 512
                    else np.arange(tokens) + rng.integers(0, half - tokens + 1))
            passes.append((role, "%s-%d-%d" % (source, tokens, number), trace[number // 2 % trace.shape[0]][begin + pick]))
    for number, ids in enumerate(mc.uniform_ids(case.E, case.k, TURNS[-1][2], tokens, 77)):
        passes.append(("uniform", "uniform-%d-%d" % (tokens, number), ids))
    return passes


def loads_of(mc, case, source, tokens, folder):
    """{turn: [load]}: a load is what one GPU of one pass got; ids are turned so that its experts are the first ones."""
    import numpy as np
    taken, turns = {}, [[] for _ in TURNS]
    for role, name, ids in routed_passes(mc, case, source, tokens, folder):
        place = taken[role] = taken.get(role, -1) + 1
        which = ("train", "test", "uniform").index(role)
        turn = next((t for t, upto in enumerate(TURNS) if place < upto[which]), None)
        if turn is None:
            continue
        ids = ids.astype(np.int32)
        pairs = np.bincount((ids // case.E_local).ravel(), minlength=case.ranks)
        order = np.argsort(-pairs, kind="stable")
        ranks = dict.fromkeys(int(order[i]) for i in (0, 1, case.ranks // 2)[:RANKS_OF[role]] if i < case.ranks)
        for rank in ranks:
            first = rank * case.E_local
            counts = np.bincount(ids.ravel(), minlength=case.E)[first:first + case.E_local]
            if counts.sum():
                turns[turn].append(dict(tokens=tokens, role=role, gpu=rank, counts=[int(n) for n in counts],
                                        ids=(ids - first) % case.E, domain=source if role != "uniform" else "uniform",
                                        **{"pass": name}))
    return turns


# ---------------------------------------------------------------- times
class Simulated:
    """Made-up times with the shape of true ones, so that everything but the GPU can be tried.  The table says so."""
    gpu, driver, toolkit, versions = "simulated", "none", "none", "none"

    def __init__(self, **_):
        self.rng = random.Random(1)

    def prepare(self, cases):
        pass

    def shipped(self, case, tokens):
        return (64, 128, 32, 4, 3) if tokens > 64 else (16, 128, 1 if tokens <= 16 else 32, 4, 3)

    def point(self, case, tokens, loads, configs):
        for load in loads:
            for config in configs:
                m, n, _, warps, _ = config
                resident = resident_blocks(config)
                us = 12.0 + 0.002 * tokens + 0.4 * sum(c > 0 for c in load["counts"])
                for columns, depth in ((2 * case.h, case.d), (case.d, case.h)):
                    tiles = sum(-(-c // m) for c in load["counts"]) * -(-columns // n)
                    block_us = depth / 128 * (0.05 + m * n / 70000 * 4 / warps) * resident ** 0.7
                    us += math.ceil(tiles / (132 * resident)) * block_us
                yield config, resident, load, [us * self.rng.uniform(0.99, 1.01) for _ in range(4)]


class Measured:
    """vLLM's TritonExperts through the harness."""

    def __init__(self, harness, payload, site, cache, samples, log, deadline):
        import bench_peers
        self.bp, self.samples, self.log, self.deadline = bench_peers, samples, log, deadline
        arguments = ["--site", site, "--cache", cache] + (["--payload", payload] if payload else [])
        self.bp.environment(self.bp.parse(arguments))
        import torch
        self.torch = torch
        import peers
        self.peers = peers
        peers.vllm()
        import triton
        self.gpu = torch.cuda.get_device_name()
        self.toolkit = "triton %s, torch %s" % (triton.__version__, torch.__version__)
        self.versions = "vllm %s" % self.bp.versions().get("vllm", "unknown")
        self.clock = self.bp.Clock()
        try:
            self.driver = self.clock.n.nvmlSystemGetDriverVersion()
        except Exception:
            self.driver = "unknown"
        self.weights, self.resources, self.broken = {}, {}, set()

    def layers_of(self, case, tokens):
        """Of a graph: its weights are cold, and for short layers its start is spread over as many again."""
        cold = math.ceil(COLD_BYTES / (case.E_local * case.expert_bytes))
        return max(3, min(16, 2 * cold)) if tokens <= 512 else max(2, min(16, cold))

    def prepare(self, cases):
        for case in cases:
            self.weights[str(case)] = self.bp.Weights(case, self.layers_of(case, 1))
        self.torch.cuda.synchronize()

    def shipped(self, case, tokens):
        config, where = self.peers.VllmTriton(case).chosen(tokens)
        self.log("%s %s, %d tokens: vLLM takes %s of its %s" % (case.model, case.layout, tokens, label_of(config_of(config)), where))
        return config_of(config)

    def layers(self, case, tokens):
        torch = self.torch
        generator = torch.Generator(device="cuda").manual_seed(5)
        hidden = torch.randn(tokens, case.d, device="cuda", generator=generator).to(torch.bfloat16)
        gate = torch.rand(tokens, case.k, device="cuda", generator=generator) + 0.1
        gate = (gate / gate.sum(1, keepdim=True)).contiguous()
        ids = torch.zeros(tokens, case.k, dtype=torch.int32, device="cuda")
        emap = None
        if case.ranks > 1:
            emap = torch.full((case.E,), -1, dtype=torch.int32, device="cuda")
            emap[:case.E_local] = torch.arange(case.E_local, dtype=torch.int32, device="cuda")
        return ids, [self.bp.Layer(index=i, rank=0, first=0, hidden=hidden, ids=ids, weights=gate, w13=w13, s13=s13, w2=w2, s2=s2,
                                   expert_map=emap, counts=None, active=None, shared={})
                     for i, (w13, s13, w2, s2) in enumerate(self.weights[str(case)].layers[:self.layers_of(case, tokens)])]

    def kernels(self):
        """Triton's compiled kernels of the two products, by identity."""
        try:
            from vllm.model_executor.layers.fused_moe.fused_moe import fused_moe_kernel
            return {id(k): k for k in list(fused_moe_kernel.device_caches.values())[0][0].values()}
        except Exception:
            return {}

    def capture(self, candidate, layers, pool):
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for layer in layers:
                candidate.run(layer)
            side.synchronize()
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin(pool=pool)
            try:
                for layer in layers:
                    out = candidate.run(layer)
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(side)
        return graph, out

    def resident(self, config, before):
        """From what the compiler says of the kernels that this configuration brought; the larger of the two counts."""
        if config not in self.resources:
            shared, registers = [], []
            for key, kernel in self.kernels().items():
                if key in before:
                    continue
                try:
                    shared.append(int(kernel.metadata.shared))
                    registers.append(int(kernel.n_regs))
                except Exception:
                    pass
            if shared and max(registers) > 0:
                self.resources[config] = resident_blocks(config, max(shared), max(registers))
        return self.resources.get(config, resident_blocks(config))

    def point(self, case, tokens, loads, configs):
        torch = self.torch
        ids, layers = self.layers(case, tokens)
        ids.copy_(torch.from_numpy(loads[0]["ids"]))
        pool = torch.cuda.graph_pool_handle()
        graphs = {}
        for config in configs:
            if (case.model, config) in self.broken:
                continue
            before = set(self.kernels())
            try:
                graph, out = self.capture(self.peers.VllmTriton(case, config=dict(knobs_of(config), SPLIT_K=1)), layers, pool)
            except Exception as e:
                torch.cuda.synchronize()
                self.broken.add((case.model, config))
                self.log("  %s can't run: %s: %s" % (label_of(config), type(e).__name__, str(e)[:120]))
                continue
            graphs[config] = (graph, out, self.resident(config, before))
        # Right first: against the reference, in memory that was filled with NaN.
        reference = layers[-1].reference().float()
        for config in list(graphs):
            graph, out, _ = graphs[config]
            out.fill_(float("nan"))
            graph.replay()
            error = ((out.float() - reference).norm() / reference.norm().clamp(min=1e-30)).item()
            if not error < self.bp.CHECK_LIMIT:
                self.log("  %s is WRONG by %.3g: not timed" % (label_of(config), error))
                del graphs[config]
        names = list(graphs)
        if not names:
            return
        event = lambda: torch.cuda.Event(enable_timing=True)
        events = {config: [(event(), event()) for _ in range(self.samples)] for config in names}
        slow = set()
        for number, load in enumerate(loads):
            if time.time() > self.deadline:
                break
            ids.copy_(torch.from_numpy(load["ids"]))
            graphs[names[0]][0].replay()
            for turn in range(self.samples):
                at = (turn * 7 + number) % len(names)
                for config in names[at:] + names[:at]:
                    if config in slow and turn >= 2:
                        continue
                    begin, end = events[config][turn]
                    begin.record()
                    graphs[config][0].replay()
                    end.record()
            torch.cuda.synchronize()
            us = {}
            for config in names:
                taken = events[config][:2] if config in slow else events[config]
                us[config] = [begin.elapsed_time(end) * 1e3 / len(layers) for begin, end in taken]
                yield config, graphs[config][2], load, us[config]
            if number == 0:
                fastest = min(min(t) for t in us.values())
                slow = {config for config in names if min(us[config]) > SLOW * fastest}
        clock = self.clock.read()
        self.log("  %s %s T%d: %d configurations, %d slow, %d loads%s" % (
            case.model, case.layout, tokens, len(names), len(slow), number + 1,
            ", %d MHz, %s" % (clock[0], hex(clock[1])) if clock else ""))
        graphs.clear()
        if torch.cuda.memory_reserved() > 100e9:
            torch.cuda.empty_cache()


# ---------------------------------------------------------------- compiling ahead
def compile_part(a, cases, part, parts):
    """Every configuration once for every model, so that its kernels are in Triton's cache; layouts differ in nothing compiled."""
    timer = Measured(a.harness, a.payload, a.site, a.cache, a.samples, lambda text: None, math.inf)
    models = {case.model: case for case, _ in reversed(cases)}
    jobs = [(case, config) for case in models.values() for config in CONFIGS]
    ready = {}
    for case, config in jobs[part::parts]:
        if case.model not in ready:
            timer.weights[str(case)] = timer.bp.Weights(case, 1)
            ready[case.model] = timer.layers(case, 256)[1][0]
        try:
            timer.peers.VllmTriton(case, config=dict(knobs_of(config), SPLIT_K=1)).run(ready[case.model])
            timer.torch.cuda.synchronize()
        except Exception as e:
            print("compiling %s for %s: %s: %s" % (label_of(config), case.model, type(e).__name__, str(e)[:120]), flush=True)


def compile_ahead(a, log):
    """The processes; the caller goes on and waits for them later."""
    again = [sys.executable, os.path.abspath(__file__)] + sys.argv[1:]
    log("compiling in %d processes" % a.processes)
    return [subprocess.Popen(again + ["--compile-part", "%d/%d" % (i, a.processes)]) for i in range(a.processes)]


def wait_for(processes, deadline, log):
    late = 0
    for process in processes:
        try:
            process.wait(timeout=max(0.1, deadline - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            late += 1
    if processes:
        log("compiled%s" % (", %d processes were not done" % late if late else ""))


# ---------------------------------------------------------------- the whole
def parse_case(mc, text):
    model, layout, source = (text.split(":") + ["generated"])[:3]
    try:
        case = mc.Case(model, layout)
    except (KeyError, ValueError) as e:
        raise SystemExit("--case %s: %s; allowed: MODEL:LAYOUT[:LOADS], such as olmoe:ep8 or olmoe:ep8:recorded" % (text, e))
    return case, source


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--harness", required=True, help="folder of bench_peers.py")
    p.add_argument("--payload", help="vLLM's code, packed; default: what --site holds already")
    p.add_argument("--site", default="/tmp/peers_site", help="where the payload is unpacked")
    p.add_argument("--cache", default="/tmp/peers_cache", help="Triton's compiled kernels")
    p.add_argument("--loads", required=True, help="folder of MODEL.NAME.npz")
    p.add_argument("--case", action="append", required=True, help="MODEL:LAYOUT[:LOADS]; LOADS: generated (default) or recorded")
    p.add_argument("--tokens", default="128,512,256,1024,2048,4096", help="pass sizes, in the order they are timed")
    p.add_argument("--samples", type=int, default=6, help="a cell; even, so that one half can pick and the other score")
    p.add_argument("--out", required=True, help="folder of the tables")
    p.add_argument("--limit", type=float, default=210, help="seconds in all, compiling included")
    p.add_argument("--processes", type=int, default=0, help="compile in so many processes before timing")
    p.add_argument("--compile-limit", type=float, default=110, help="seconds after which what is not compiled is left for later")
    p.add_argument("--turns", type=int, default=len(TURNS), help="over all cases and sizes, each with further passes")
    p.add_argument("--simulate", action="store_true", help="made-up times; the tables say so")
    p.add_argument("--compile-part", help=argparse.SUPPRESS)
    return p.parse_args(argv)


def main(argv):
    begin = time.time()
    a = parse(argv)

    def log(text):
        print("[%5.1f] %s" % (time.time() - begin, text), flush=True)

    sys.path.insert(0, a.harness)
    import moe_cases as mc
    cases = [parse_case(mc, text) for text in a.case]
    tokens = [int(t) for t in a.tokens.split(",")]
    if a.compile_part:
        return compile_part(a, cases, *map(int, a.compile_part.split("/")))
    os.makedirs(a.out, exist_ok=True)
    deadline = begin + a.limit
    if a.simulate:
        timer, compiling = Simulated(), []
    else:
        if a.payload:  # before the processes look for it
            import bench_peers
            bench_peers.unpack(a.payload, a.site)
        compiling = compile_ahead(a, log) if a.processes else []
        timer = Measured(a.harness, a.payload, a.site, a.cache, a.samples, log, deadline)
    timer.prepare([case for case, _ in cases])
    log("ready: %s" % timer.gpu)
    wait_for(compiling, begin + a.compile_limit, log)
    tables, loads, configs = [], {}, []
    for i, (case, source) in enumerate(cases):
        shipped = {t: timer.shipped(case, t) for t in tokens}
        configs.append(list(dict.fromkeys(CONFIGS + list(shipped.values()))))
        name = "vllm-%s-%s%s.csv" % (case.model, case.layout, "" if source == "generated" else "-" + source)
        routing = ("generated: by the harness for %s" if source == "generated" else "recorded: %s, one trace by halves") % case.model
        tables.append(Table(os.path.join(a.out, name), [
            ("kernel", "vLLM's Triton MoE (TritonExperts), FP8 W8A8, 128 x 128 block scales"), ("model", case.model),
            ("layout", case.layout), ("gpus", case.ranks), ("top_k", case.k), ("hidden", case.d), ("intermediate", case.h),
            ("routing", routing), ("gpu", timer.gpu), ("driver", timer.driver), ("toolkit", timer.toolkit),
            ("sources", timer.versions), ("date", time.strftime("%Y-%m-%d")),
            ("how", "the whole layer in a captured graph, ids to bf16 output, layers of their own weights that do not fit the L2, "
                    "event-timed, configurations in turns; of each pass the heaviest GPUs")],
            {t: label_of(config) for t, config in shipped.items()}))
        for t in tokens:
            loads[i, t] = loads_of(mc, case, source, t, a.loads)
    points = 0
    for turn in range(min(a.turns, len(TURNS))):
        for t in tokens:
            for i, (case, _) in enumerate(cases):
                if not loads[i, t][turn]:
                    continue
                if time.time() > deadline:
                    log("time limit in turn %d, %d tokens, %s" % (turn + 1, t, case))
                    return 0
                lines = []
                try:
                    for config, resident, load, us in timer.point(case, t, loads[i, t][turn], configs[i]):
                        lines.append((config, grid_of(config, case.d, case.h, resident), load, us))
                except Exception as e:  # one point is not worth the others
                    log("  %s %s T%d: %s: %s" % (case.model, case.layout, t, type(e).__name__, str(e)[:300]))
                tables[i].add(lines)
                points += 1
        log("turn %d of %d done, %d points" % (turn + 1, min(a.turns, len(TURNS)), points))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
