#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/pack_measured.py on a folder as tools/measure.sh leaves it: what is summed up, what is kept, what is left alone."""
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

root = pathlib.Path(sys.argv[1])
tool = [sys.executable, str(root / "tools/pack_measured.py")]


def write(path, value):
    path.write_text(json.dumps(value))


with tempfile.TemporaryDirectory() as folder:
    out, data = pathlib.Path(folder) / "out", pathlib.Path(folder) / "data"
    out.mkdir(), data.mkdir()
    write(data / "soak.json", {"kept": True})
    db = sqlite3.connect(out / "olmoe-ep8.rmeas")
    db.execute("CREATE TABLE load(id INTEGER PRIMARY KEY, counts BLOB)")
    db.execute("PRAGMA user_version = 1")
    db.executemany("INSERT INTO load(counts) VALUES (?)", [(bytes(4000),)] * 50)
    db.commit()
    db.execute("DELETE FROM load WHERE id > 1")  # leaves pages that nothing uses
    db.commit()
    db.close()
    case = {"config": "a", "ok": True, "rel_err": 0.001, "tolerance": 0.01}
    write(out / "check.json", {"gpu": "G", "commit": "c", "date": "d", "seeds": 1, "records": [
        case, {**case, "rel_err": 0.02, "ok": False}, {**case, "config": "b"}]})
    write(out / "forced-x.json", {"forced": [{"entry": "a"}]})
    write(out / "forced-y.json", {"forced": [{"entry": "b"}]})
    subprocess.run([*tool, str(data), str(out)], check=True)

    check = json.loads((data / "check.json").read_text())
    assert check["gpu"] == "G" and "records" not in check, check
    assert check["configs"] == [
        {"config": "a", "cases": 2, "wrong": 1, "worst_rel_err": 0.02, "tolerance": 0.01},
        {"config": "b", "cases": 1, "wrong": 0, "worst_rel_err": 0.001, "tolerance": 0.01}], check["configs"]
    assert [r["entry"] for r in json.loads((data / "polymorphic.json").read_text())["forced"]] == ["a", "b"]
    assert json.loads((data / "soak.json").read_text()) == {"kept": True}, "what was not measured stays"
    packed = sqlite3.connect(data / "olmoe-ep8.rmeas")
    assert packed.execute("SELECT count(*) FROM load").fetchone() == (1,)
    assert packed.execute("PRAGMA user_version").fetchone() == (1,), "the format's version travels"
    assert (data / "olmoe-ep8.rmeas").stat().st_size < (out / "olmoe-ep8.rmeas").stat().st_size / 4

    point = {"model": "olmoe", "layout": "ep8", "tokens": 16, "load": "uniform", "weight_mb": 1.0, "floor": 2.0,
             "us": {"vllm": 9.0, "vllm_stock": 8.0, "stream": 3.0, "ramp/candidate": 4.0}, "error": {"ramp/candidate": 0.01}}
    left_out = {**point, "tokens": 1, "us": {"vllm": 9.0, "stream": 3.0}}
    write(out / "peers.json", {"meta": {"gpu": "G", "date": "d"}, "rows": [point, left_out]})
    subprocess.run([*tool, str(data), "--peers", "c", str(out / "peers.json")], check=True, stdout=subprocess.DEVNULL)
    rows = json.loads((data / "peers.json").read_text())["rows"]
    assert len(rows) == 1, "a point that ours was not timed on is none"
    assert rows[0]["us"] == 4.0 and rows[0]["best_peer_us"] == 8.0 and rows[0]["peers"] == {"vllm": 9.0, "vllm_stock": 8.0}, rows
    assert rows[0]["gpu"] == "G" and rows[0]["commit"] == "c" and rows[0]["stream_us"] == 3.0, rows
    assert subprocess.run(tool, capture_output=True).returncode != 0, "no arguments: how to use it"
