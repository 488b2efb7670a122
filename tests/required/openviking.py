"""openviking, beyond what every service does."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "openviking.tools": ("search, browse, tiered reads, remember, forget and add a resource", "003 Bundled Providers"),
    "openviking.parts": ("turns are stored with their tools; those that recall are left out", "product"),
    "openviking.commit": ("a session is committed at every boundary, and again when more was said", "product"),
    "openviking.failed": ("a failed commit is told, and the session is committed again", "product"),
    "openviking.left": ("a session that was left without an end is committed later", "product"),
    "openviking.once": ("a turn whose answer was lost is not stored twice, also after a restart", "product"),
    "openviking.blurbs": ("the server's own words about folders are never recalled", "product"),
    "openviking.people": ("nobody reads another's tree, also where the server would show it", "product"),
    "openviking.setup": ("OpenViking's own file can be used instead of answers", "product"),
}
