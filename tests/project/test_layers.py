"""No import ring, also not through imports inside functions or of modules that are named by a text."""

from __future__ import annotations

import os
import subprocess
import sys
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

import grimp
import pytest

from hermes.cli.catalogue import GROUPS, SINGLES
from hermes.providers.discovery import BUNDLED

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = {module for _, group in GROUPS.values() for module, _ in group.values() if module != "benchmarks"} | {
    module for module, _ in SINGLES.values()
}
# What is loaded by `import_module`, where no reader of imports sees it.
LOADED_BY_NAME = {
    "hermes.cli.app": {f"hermes.cli.{name}" for name in COMMANDS},
    "hermes.memory.store": {f"hermes.safety.{name}" for name in ("scanner", "secrets")},
    "hermes.providers.discovery": {f"hermes.providers.services.{name}" for name in BUNDLED},
}


@pytest.mark.internal("the architecture promises that no ring hides in an import inside a function")
def test_no_module_imports_itself_however_late() -> None:
    graph = grimp.build_graph("hermes", cache_dir=None)
    modules = graph.modules - {"hermes"}  # the package itself names its public parts
    edges = {module: graph.find_modules_directly_imported_by(module) & modules for module in modules}
    for module, loaded in LOADED_BY_NAME.items():
        assert loaded <= modules
        edges[module] |= loaded
    assert len(list(TopologicalSorter(edges).static_order())) == len(modules)


RING = {
    "__init__.py": "",
    "one.py": "def late():\n    from ringed import two\n    return two\n",
    "two.py": "from ringed import one\n",
}
CONTRACT = """
[importlinter]
root_package = ringed
[importlinter:contract:rings]
name = no rings
type = acyclic_siblings
ancestors = ringed
"""


@pytest.mark.internal("our contract is of the kind that sees an import inside a function")
def test_the_contract_sees_an_import_inside_a_function(tmp_path: Path) -> None:
    (tmp_path / "ringed").mkdir()
    (tmp_path / ".importlinter").write_text(CONTRACT)
    program = [os.path.join(os.path.dirname(sys.executable), "lint-imports"), "--no-cache"]
    codes = []
    for files in (RING, RING | {"one.py": "def late():\n    return None\n"}):
        for name, text in files.items():
            (tmp_path / "ringed" / name).write_text(text)
        ran = subprocess.run(program, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, check=False)
        codes.append(ran.returncode)
    assert codes == [1, 0]
