"""Loads the Python package in a plug-in's folder, under a name of its own."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def import_plugin(kind: str, name: str, folder: str) -> ModuleType:
    """The module of a folder, run once; two homes may have plug-ins of one name, and each is a module of its own."""
    mark = f"{hash(os.path.realpath(folder)) & 0xFFFFFFFFFFFFFFFF:016x}"  # for this process; no need to load hashlib
    full_name = f"hermes_{kind}_{name.replace('-', '_')}_{mark}"
    if full_name in sys.modules:
        return sys.modules[full_name]
    path = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(full_name, path, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[full_name] = module  # so that the plug-in's own relative imports work
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[full_name]
        raise
    return module
