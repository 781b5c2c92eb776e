#!/usr/bin/env python3
"""The house's one law: a room includes only the rooms below it, and the extension says who may include a file.

usage: check_layers.py SOURCE_ROOT     exits 1 and names every line that breaks the law
"""
import pathlib
import re
import sys

MAY = {  # room -> rooms it may include
    "base": set(),
    "problem": {"base"},
    "choice": {"base", "problem"},
    "gpu": {"base"},
    "kernels": {"base", "problem", "choice", "gpu"},
    "runtime": {"base", "problem", "choice", "gpu", "kernels"},
    "lab": {"base", "problem", "choice"},
    "cli": {"base", "problem", "choice", "gpu", "kernels", "runtime", "lab"},
}
SHARED_ONLY = {"kernels": {"choice", "problem"}}  # of these rooms, kernels sees the shared .h files alone
EXTENSIONS = {".h": {".h"}, ".cuh": {".h", ".cuh"}, ".hpp": {".h", ".hpp"}, ".cpp": {".h", ".hpp"}}


def complaints(root):
    src = root / "src"
    for path in sorted(src.rglob("*")):
        if path.suffix not in EXTENSIONS:
            continue
        room = path.relative_to(src).parts[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#include "([^"]+)"', line)
            if not found or not (src / found[1]).exists():
                continue
            other, suffix = found[1].split("/")[0], pathlib.Path(found[1]).suffix
            at = f"{path.relative_to(root)}:{number}"
            if other != room and other not in MAY[room]:
                yield f"{at}: {room} may not include {other} ({found[1]})"
            if suffix not in EXTENSIONS[path.suffix]:
                yield f"{at}: a {path.suffix} file may not include a {suffix} file ({found[1]})"
            if other in SHARED_ONLY.get(room, ()) and suffix != ".h":
                yield f"{at}: {room} sees only the .h files of {other} ({found[1]})"


def main():
    bad = list(complaints(pathlib.Path(sys.argv[1])))
    print("\n".join(bad) if bad else "layers: every include points down")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
