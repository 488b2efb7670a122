"""Writes tests/data/tokens/counts.json: the true o200k token count of every sample beside it.

Needs an offline tokenizer that the suite does not: `pip install toktok-rs` into a throw-away environment, then
`python tests/support/count_tokens.py`. Run it after adding or changing a sample.
"""

from __future__ import annotations

import json
import os

from toktok import batch_count  # type: ignore[import-not-found]  # only in the environment that runs this script

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "tokens")


def main() -> None:
    names = sorted(
        f"{group}/{file}"
        for group in os.listdir(DATA)
        if os.path.isdir(os.path.join(DATA, group))
        for file in os.listdir(os.path.join(DATA, group))
    )
    texts = []
    for name in names:
        with open(os.path.join(DATA, name), encoding="utf-8", newline="") as file:
            texts.append(file.read())
    counts = dict(zip(names, batch_count(texts, "o200k_base"), strict=True))
    with open(os.path.join(DATA, "counts.json"), "w", encoding="utf-8") as file:
        json.dump(counts, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
