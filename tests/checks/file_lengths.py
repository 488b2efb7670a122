"""Fails when a source or test file is longer than a person can hold in mind."""

import subprocess
import sys

LONGEST = 400
FOLDERS = ("src", "tests", "docs/examples")


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *(f"{folder}/*.py" for folder in FOLDERS)],
        capture_output=True,
        text=True,
        check=True,
    )
    too_long = []
    for path in listed.stdout.splitlines():
        try:
            with open(path, encoding="utf-8") as file:
                lines = sum(1 for _ in file)
        except FileNotFoundError:  # deleted in the working tree, not yet in the index
            continue
        if lines > LONGEST:
            too_long.append(f"{path}: {lines} lines, at most {LONGEST}; split it")
    print("\n".join(too_long) or f"every file has at most {LONGEST} lines")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
