"""Rows of document 003's table "Failure Modes" that belong to no other area."""

_MODES = "003 Failure Modes"
REQUIREMENTS: dict[str, tuple[str, str]] = {
    "failure.no-locks": ("where files cannot be locked, writes go on and readers stay safe", _MODES),
    "failure.write": ("a write that fails is an error and leaves the file as it was", _MODES),
    "failure.locked": (
        "while another program keeps state.db locked the agent goes on with a notice, and everything is stored later",
        _MODES,
    ),
    "failure.damaged": (
        "over a damaged state.db the agent goes on with a notice that names the repair, and is stored after it",
        _MODES,
    ),
    "failure.strict": ("a host can demand that what cannot be stored is refused", "product"),
    "failure.told": ("status, doctor and repair say which conversations are not in state.db", "product"),
    "failure.no-source": ("without an OpenClaw home the places are named and nothing is written", _MODES),
    "failure.gateway": ("a gateway that runs is named before a migration", _MODES),
}
