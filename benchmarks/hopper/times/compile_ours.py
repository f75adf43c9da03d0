"""Compiles this package's kernels for the table, where the CuTe DSL is; no GPU needed.

    FA4_CUTE_CACHE_DIR=FOLDER python -m benchmarks.hopper.times.compile_ours [--only REGEX]

A process without the DSL runs what is in the folder, if its sources are the same.
"""

from __future__ import annotations

import argparse
import re

import fa4_cute
from benchmarks.hopper.times.problems import TABLE


def main() -> None:
    """Compile what is supported, and say what is not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="regular expression over problem names")
    only = parser.parse_args().only
    names: set[str] = set()
    refused: dict[str, int] = {}
    for problem in TABLE:
        if not re.search(only, problem.name):
            continue
        options = problem.our_options()
        answer = fa4_cute.can_implement(**options)
        if answer.ok:
            names.update(fa4_cute.warmup([options]))
        else:
            refused[str(answer.reason)] = refused.get(str(answer.reason), 0) + 1
    print(f"{len(names)} kernels")
    for reason, count in refused.items():
        print(f"{count} problems: {reason}")


if __name__ == "__main__":
    main()
