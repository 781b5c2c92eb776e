#!/usr/bin/env python3
"""Runs the commands of README.md's "Use" block as they stand there, and checks that its links lead somewhere.

usage: check_readme.py SOURCE_ROOT PROGRAM     PROGRAM takes the place of build/ramp; files go to a temporary folder
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile


def main():
    root, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    text = (root / "README.md").read_text()
    missing = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not (root / link).exists()]
    for link in missing:
        print("README.md links to", link, "which is not there")
    block = re.search(r"## Use\n+```\n(.*?)```", text, re.S)[1]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for line in block.strip().splitlines():
            words = shlex.split(line)
            words = [program if w == "build/ramp" else w.replace("build/", folder + "/") for w in words]
            result = subprocess.run(words, cwd=root, capture_output=True, text=True)
            print("ok    " if result.returncode == 0 else "FAILED", line)
            if result.returncode:
                failed += 1
                print(result.stdout[-2000:], result.stderr[-2000:])
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
