#!/usr/bin/env python3
"""The tables of docs/policies.md, from the shipped measurements.

usage: policy_tables.py SOURCE_ROOT PROGRAM           checks that the page holds what the program says
       policy_tables.py SOURCE_ROOT PROGRAM --write   writes it there
"""
import json
import pathlib
import subprocess
import sys

FILES = ["dsv2-lite-ep8", "qwen3-30b-ep8", "olmoe-ep8"]
TERMS = ["none", "reread", "reduced", "ragged", "makespan", "floor", "reread,reduced", "reread,makespan", "reread,floor"]


def policies(program, root, name, *options):
    command = [program, "eval", f"data/h200/{name}.rmeas", "--json", *options]
    document = json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout)
    return {p["name"]: p for p in document["policies"]}


def percent(fraction):
    return "-" if fraction is None else f"{100 * fraction:.1f}"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def interval(comparison):
    low, high = (percent(x) for x in comparison["gap_interval"])
    return f"{percent(comparison['gap'])} [{low}, {high}]"


def policy_table(program, root):
    of_file = [policies(program, root, name) for name in FILES]
    lines = [row(["policy", "sees", "bytes"] + [x for name in FILES for x in (name, ">=128")]),
             row(["---"] * (3 + 2 * len(FILES)))]
    for name, policy in of_file[0].items():
        sizes = [p[name]["bytes"] for p in of_file]
        size = str(sizes[0]) if min(sizes) == max(sizes) else f"{min(sizes)}-{max(sizes)}"
        cells = [x for p in of_file for x in (interval(p[name]["all"]), percent(p[name]["large"]["gap"]))]
        lines.append(row([f"`{name}`", policy["sees"], size] + cells))
    return lines


def term_table(program, root):
    lines = [row(["terms"] + [x for name in FILES for x in (name, ">=128", "regret")]),
             row(["---"] * (1 + 3 * len(FILES)))]
    first = ["cost-model"] + TERMS
    for terms in first:
        cells = []
        for name in FILES:
            policy = "cost-model" if terms == "cost-model" else "cost-model-extended"
            options = [] if terms == "cost-model" else ["--terms", terms]
            p = policies(program, root, name, "--policies", policy, *options)[policy]
            cells += [percent(p["all"]["gap"]), percent(p["large"]["gap"]), percent(p["regret"])]
        label = "the paper's fit, no further term" if terms == "cost-model" else terms.replace(",", " + ")
        lines.append(row([label] + cells))
    return lines


def main():
    root, program = pathlib.Path(sys.argv[1]), str(pathlib.Path(sys.argv[2]).absolute())
    page = root / "docs/policies.md"
    text = page.read_text()
    wanted = text
    for mark, table in (("policies", policy_table), ("terms", term_table)):
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        at, to = wanted.index(begin) + len(begin), wanted.index(end)
        wanted = wanted[:at] + "\n".join(table(program, root)) + "\n" + wanted[to:]
    if "--write" in sys.argv:
        page.write_text(wanted)
    elif wanted != text:
        print("docs/policies.md does not hold what the program says of the shipped measurements;")
        print("next: python3 tools/policy_tables.py . build/ramp --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
