# SPDX-License-Identifier: Apache-2.0
"""usage: vllm_table_check.py SOURCE_ROOT PROGRAM     what tools/vllm_table.py does without a GPU, numpy or a harness"""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

root, program = pathlib.Path(sys.argv[1]), sys.argv[2]
spec = importlib.util.spec_from_file_location("vllm_table", root / "tools" / "vllm_table.py")
tool = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(tool)

assert len(set(tool.CONFIGS)) == len(tool.CONFIGS)
wide, small = (64, 128, 32, 4, 3), (16, 64, 1, 4, 3)
assert tool.config_of(tool.knobs_of(wide)) == wide and tool.label_of(wide) == "m64-n128-g32-w4-s3"
assert tool.config_of(dict(tool.knobs_of(wide), BLOCK_SIZE_K=256)) == wide, "cut to the scales' block, as vLLM does"
try:
    tool.config_of(dict(tool.knobs_of(wide), BLOCK_SIZE_K=64))
    raise AssertionError("another kernel")
except ValueError:
    pass

# 3 stages of (64 + 128) x 128 bytes: three blocks would need 216 KB and their share of the registers.
assert tool.resident_blocks(wide, shared_bytes=3 * 192 * 128, registers=168) == 3
assert tool.resident_blocks(wide, shared_bytes=3 * 192 * 128, registers=255) == 2
assert tool.resident_blocks(small, shared_bytes=30 << 10, registers=64) == 7
assert tool.resident_blocks(wide, shared_bytes=226 << 10, registers=100) == 1
assert tool.grid_of(wide, 2048, 768, 2) == "64x12x264+64x16x264"
assert all(1 <= tool.resident_blocks(config) <= 16 for config in tool.CONFIGS)

with tempfile.TemporaryDirectory() as folder:
    path, out = pathlib.Path(folder) / "t.csv", pathlib.Path(folder) / "t.rmeas"
    table = tool.Table(path, [("kernel", "test"), ("gpus", 2), ("top_k", 2), ("hidden", 2048), ("intermediate", 768),
                              ("routing", "generated: test"), ("gpu", "simulated")], {256: "m16-n64-g1-w4-s3", 128: tool.label_of(wide)})
    for number in range(4):
        load = {"tokens": 128, "role": ("train", "test")[number % 2], "pass": "p%d" % number, "gpu": 1, "domain": "d",
                "counts": [number + 1, 0, 7]}
        table.add([(config, tool.grid_of(config, 2048, 768, 2), load, [10.0 + number, 10.5]) for config in (wide, small)])
    lines = path.read_text().splitlines()
    assert sum("BLOCK_SIZE_M=64" in line for line in lines) == 1, "knobs once a configuration"
    assert lines[7] == "# shipped 128: m64-n128-g32-w4-s3", lines[7]
    said = subprocess.run([program, "profile", "import", str(path), "-o", str(out)], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert "2 configurations on 4 loads, 8 cells" in said.stdout, said.stdout

print("vllm_table: checked")
