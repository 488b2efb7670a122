"""Compaction of a session: when it happens, what it keeps, and that nothing can be lost on the way."""

REQUIREMENTS = {
    "compaction.in-place": (
        "By setting, a session is compacted under the same id and the old rows are archived",
        "product; 001 Dual compression system",
    ),
    "compaction.split": (
        "The old session ends with `compression`; a child with parent_session_id and a numbered title goes on",
        "002 Context compression and session splitting",
    ),
    "compaction.reachable": ("Search, scroll, read and context_expand reach every compacted message", "product"),
    "compaction.expand.own": ("context_expand shows nothing of another conversation", "product"),
    "compaction.restore": ("`hermes sessions restore` rebuilds the uncompacted conversation", "product"),
    "compaction.range": ("The model may put away a range, with the same guarantees", "product"),
    "compaction.thrift": ("What would not become smaller is not compacted, whoever asks", "product"),
    "compaction.notice": ("One notice per compaction tells the person what was kept", "product"),
}
