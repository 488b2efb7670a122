"""What no version may change: formats that others rely on."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "frozen.homes": ("homes written by version 0.1 open without loss", "product"),
    "frozen.wire": ("requests to models keep their bytes on both wires", "product"),
    "frozen.files": ("the files of a home keep their names and formats", "product"),
    "frozen.http": ("the OpenAPI description stays what clients were built on", "product"),
}
