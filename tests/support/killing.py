"""Commands that end in the middle of their work, as if they were killed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def killed(home: Path, patch: str, *words: str, **environment: str) -> None:
    """Runs a command in a process that `patch` ends with code 9."""
    code = f"import os, sys\n{patch}\nfrom hermes.cli.app import run\nrun(sys.argv[1:])"
    ran = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "HERMES_HOME": str(home), **environment},
        check=False,
        capture_output=True,
    )
    assert ran.returncode == 9, ran.stderr


AT_THE_END = "from hermes.portability.exchange import HomeCopy\nHomeCopy.swap = lambda copy: os._exit(9)"
