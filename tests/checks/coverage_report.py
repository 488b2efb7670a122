"""Prints branch coverage by package from `coverage json`, with the files that miss most; 1 when a target is missed."""

from __future__ import annotations

import json
import sys
from collections import defaultdict

WHOLE = frozenset({"memory", "safety", "storage", "compaction", "tools", "session"})
ELSEWHERE = 90.0
SHOWN = 3


def main(path: str) -> int:
    with open(path, encoding="utf-8") as file:
        files = json.load(file)["files"]
    packages: dict[str, list[tuple[str, dict[str, int]]]] = defaultdict(list)
    for name, figures in files.items():
        inside = name.split("src/hermes/", 1)[-1]
        packages[inside.split("/")[0] if "/" in inside else "(top)"].append((inside, figures["summary"]))
    missed = 0
    print(f"{'package':<14}{'covered':>9}{'target':>8}   missing lines and branches, most in")
    for package, rows in sorted(packages.items()):
        share = _share([summary for _, summary in rows])
        target = 100.0 if package in WHOLE else ELSEWHERE
        worst = sorted(rows, key=lambda row: -_missing(row[1]))[:SHOWN]
        shown = ", ".join(f"{name} {_missing(summary)}" for name, summary in worst if _missing(summary))
        missed += share < target
        print(f"{package:<14}{share:>8.2f}%{target:>7.0f}%   {sum(_missing(each) for _, each in rows):>5}: {shown}")
    print(f"{'all':<14}{_share([each['summary'] for each in files.values()]):>8.2f}%")
    return 1 if missed else 0


def _missing(summary: dict[str, int]) -> int:
    return summary["missing_lines"] + summary["missing_branches"]


def _share(summaries: list[dict[str, int]]) -> float:
    covered = sum(each["covered_lines"] + each["covered_branches"] for each in summaries)
    every = sum(each["num_statements"] + each["num_branches"] for each in summaries)
    return 100 * covered / every if every else 100.0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
