"""What a person pays before anything happens."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hermes


@pytest.mark.proves("ground.version")
def test_version_is_answered_without_importing_anything_else() -> None:
    code = (
        "import sys; sys.argv = ['hermes', '--version']; from hermes.__main__ import main; main();"
        "print(sorted(m for m in sys.modules if m.startswith('hermes')))"
    )
    out = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == f"hermes {hermes.__version__}\n['hermes', 'hermes.__main__']\n"
