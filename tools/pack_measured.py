#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/measure.sh left, as data/h200 holds it:

  tools/pack_measured.py DATA OUT...          measurements, layers, checks, polymorphic menus
  tools/pack_measured.py DATA --peers COMMIT FILE...
                                              records of a side-by-side harness with our layer of that commit in it

Measurements are copied without the room that a campaign leaves free, checks summed up by configuration.  Files that OUT
does not have stay as they are.
"""
import json
import pathlib
import sqlite3
import sys

OURS = "ramp"  # in the name of the harness's candidate
KEPT = ("vllm", "vllm_stock", "deepgemm", "deepgemm_masked", "flashinfer")
FIRST = ("gpu", "commit", "date", "seeds", "soak")


def by_config(check):
    """Records of single cases -> one row a configuration."""
    rows = {}
    for r in check["records"]:
        row = rows.setdefault(r["config"], {"config": r["config"], "cases": 0, "wrong": 0, "worst_rel_err": 0.0, "tolerance": 0.0})
        row["cases"] += 1
        row["wrong"] += not r["ok"]
        row["worst_rel_err"] = max(row["worst_rel_err"], r["rel_err"])
        row["tolerance"] = max(row["tolerance"], r["tolerance"])
    return list(rows.values())


def summed(check, rows_name):
    return {**{k: check[k] for k in FIRST if k in check}, rows_name: by_config(check)}


def peer_rows(commit, files):
    """The harness's rows in which our layer was timed, as layer records with the others beside it."""
    rows = []
    for file in files:
        run = json.loads(pathlib.Path(file).read_text())
        for r in run["rows"]:
            ours = next((k for k in r["us"] if OURS in k), None)
            if ours is None:
                continue
            peers = {k: r["us"][k] for k in KEPT if k in r["us"]}
            rows.append({"model": r["model"], "layout": r["layout"], "rank": "heaviest", "tokens": r["tokens"], "load": r["load"],
                         "mode": "fast", "policy": "plan", "active_mb": r["weight_mb"], "us": r["us"][ours],
                         "stream_us": r["us"].get("stream"), "floor_us": r["floor"], "rel_err": r["error"][ours],
                         "gpu": run["meta"]["gpu"], "commit": commit, "date": run["meta"]["date"], "peers": peers,
                         "best_peer_us": min(peers.values())})
    return rows


def write_rows(file, rows):
    lines = ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows)
    file.write_text('{"rows":[\n%s\n]}\n' % lines)


def pack(data, out):
    for file in sorted(out.glob("*.rmeas")):
        new = data / (file.name + ".new")  # what is there stays until this is whole
        new.unlink(missing_ok=True)
        connection = sqlite3.connect("file:%s?mode=ro" % file, uri=True)
        connection.execute("VACUUM INTO ?", (str(new),))
        connection.close()
        new.replace(data / file.name)
    for name, rows_name in (("check", "configs"), ("soak", "layers")):
        if (out / (name + ".json")).exists():
            check = json.loads((out / (name + ".json")).read_text())
            (data / (name + ".json")).write_text(json.dumps(summed(check, rows_name), indent=1) + "\n")
    forced = [row for file in sorted(out.glob("forced-*.json")) for row in json.loads(file.read_text())["forced"]]
    if forced:
        (data / "polymorphic.json").write_text(json.dumps({"forced": forced}, indent=1) + "\n")
    if (out / "layer.json").exists():
        (data / "layer.json").write_text((out / "layer.json").read_text())


def main():
    if len(sys.argv) < 3 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    data = pathlib.Path(sys.argv[1])
    if sys.argv[2] == "--peers":
        rows = peer_rows(sys.argv[3], sys.argv[4:])
        write_rows(data / "peers.json", rows)
        print("%d rows" % len(rows))
        return
    for out in sys.argv[2:]:
        pack(data, pathlib.Path(out))


if __name__ == "__main__":
    main()
