"""Curated memory alone: two files, every change recorded."""

import tempfile

from hermes import MemoryStore

folder = tempfile.TemporaryDirectory()  # gone at the end; `MemoryStore.open()` alone is your own memory
store = MemoryStore.open(folder.name)
prompt_block = store.snapshot("memory")  # for the system prompt; later writes do not change it
store.add("memory", "The deploy host runs Debian 12.")
change = store.replace("memory", "Debian 12", "The deploy host runs Debian 13.").change
store.apply("user", [{"action": "add", "content": "Works in UTC+8."}, {"action": "add", "content": "Likes tea."}])
assert change is not None
store.undo(change.id)
print(store.entries("memory"), store.entries("user"))
folder.cleanup()
