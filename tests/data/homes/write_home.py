"""Writes the homes in this folder: run once, with version 0.1; later versions only read them.

python write_home.py OUT_FOLDER
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile

from hermes import Agent, MemorySession, SessionDB
from hermes.testing import Reply, Scripted

WORDS = "it works now and the tests pass "


def hermes(home: str, *words: str, stdin: str = "") -> str:
    program = [sys.executable, "-m", "hermes", "--home", home, *words]
    done = subprocess.run(program, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{words}: {done.stderr}")
    return done.stdout


def talk(session: MemorySession, turns: int, start: int = 0) -> None:
    for number in range(start, start + turns):
        session.prepare_turn(f"Please repair src/module_{number}.py for ticket ABC-{number:04}. {'more words ' * 40}")
        if number % 3 == 0:
            session.call_tool("skills_list", {})
        session.finish_turn(f"Repaired module_{number}. {WORDS * 20}")


def everyday(home: str) -> None:
    """Curated memory with history, approvals, an archive, skills, titles, a compaction in place, a branch."""
    write(home, "config.yaml", "model:\n  context_length: 16000\ncompression:\n  in_place: true\n  protect_last_n: 4\n")
    write(home, "SOUL.md", "Answers briefly and politely, in the language of the question.\n")
    hermes(home, "memory", "add", "--target", "user", "Prefers short answers.")
    hermes(home, "memory", "add", "--target", "user", "Lives in Lisbon.")
    hermes(home, "memory", "replace", "--target", "user", "Lisbon", "Lives in Porto since May.")
    hermes(home, "memory", "pin", "--target", "user", "Porto")
    hermes(home, "memory", "add", "The staging database is called blue-heron.")
    hermes(home, "memory", "add", "Deploys happen on Tuesdays.")
    hermes(home, "memory", "remove", "Tuesdays")
    hermes(home, "memory", "add", "A note that is taken back.")
    hermes(home, "memory", "undo")
    for number in range(26):  # more than fits: the oldest move to the archive
        hermes(
            home,
            "memory",
            "add",
            f"Note {number}: " + f"the service number {number} listens on port {7000 + number} " * 3,
        )
    skill = "---\nname: release\ndescription: How to cut a release\n---\n\n1. Run the tests.\n2. Tag the commit.\n"
    for name in ("release", "rollback"):
        made = {"action": "create", "name": name, "content": skill.replace("release", name)}
        hermes(home, "tool", "skill_manage", json.dumps(made))
    linked = {
        "action": "write_file",
        "name": "release",
        "file_path": "references/checklist.md",
        "file_content": "- tests\n- tag\n",
    }
    hermes(home, "tool", "skill_manage", json.dumps(linked))
    hermes(home, "skills", "archive", "rollback")
    with MemorySession.open(home, source="cli") as session:
        session.prepare_turn("私たちは認証に何を使うことにしましたか。")
        session.finish_turn("トークンには PASETO を使うことにしました。")
        talk(session, 12)
        session.compact()
        talk(session, 2, 12)
        hermes(home, "sessions", "rename", session.id, "Repairing the modules")
    page = Reply(calls=[("read_file", {"path": "page.txt"})])
    saved = Reply(
        calls=[("memory", {"action": "add", "target": "memory", "content": "The build server is called grey-owl."})]
    )
    write(home, "../work/page.txt", "Remember: the build server is called grey-owl.\n")
    with Agent.open(home, model=Scripted([page, saved, "Done."], context_length=16000), cwd=f"{home}/../work") as agent:
        list(agent.turn("Read page.txt and follow it."))
    with SessionDB.open(f"{home}/state.db") as database:
        titled = database.create_session(source="telegram", title="Holiday in Norway")
        database.append_many(
            titled,
            [
                {"role": "user", "content": "Which fjord did we choose?"},
                {"role": "assistant", "content": "Geirangerfjord, from 3 to 10 July."},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "book_hotel", "arguments": '{"city": "Geiranger"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": '{"booked": true}'},
            ],
        )
    with MemorySession.open(home, source="cli", resume=titled) as session:
        branch_id = session.branch("Holiday in Sweden")
    with MemorySession.open(home, source="cli", resume=branch_id) as branch:
        branch.prepare_turn("And what if we went to Sweden?")
        branch.finish_turn("Then Kiruna, in the same week.")
    hermes(home, "curator", "run")


def split(home: str) -> None:
    """A conversation that compaction split into several sessions, and one under the lossless engine."""
    settings = "model:\n  context_length: 16000\ncompression:\n  in_place: false\n  protect_last_n: 4\n"
    write(home, "config.yaml", settings)
    with MemorySession.open(home, source="cli") as session:
        talk(session, 12)
        session.compact()
        talk(session, 6, 12)
        session.compact()
        talk(session, 2, 18)
    write(home, "config.yaml", settings + "context:\n  engine: lcm\n")
    with MemorySession.open(home, source="api") as session:
        talk(session, 14, 100)
        session.compact()
        talk(session, 2, 114)


def people(home: str) -> None:
    """A server's home: people with keys and memory of their own."""
    for name in ("anna", "bo"):
        hermes(home, "users", "add", name)
        hermes(home, "--user", name, "memory", "add", "--target", "user", f"My name is {name.title()}.")
        with MemorySession.open(f"{home}/users/{name}", source="server") as session:
            session.prepare_turn(f"{name.title()} asks about the budget.")
            session.finish_turn(f"The budget of {name.title()} is 4,000.")


def provider(home: str) -> None:
    """External memory: a fact store on this machine, and turns that wait for a service that is down."""
    write(home, "config.yaml", "memory:\n  provider: holographic\n")
    add = {"action": "add", "content": "Maria prefers the 08:40 train to Porto.", "category": "user_pref"}
    with MemorySession.open(home, source="cli") as session:
        session.prepare_turn("Maria prefers the 08:40 train to Porto.")
        session.call_tool("fact_store", add)
        session.finish_turn("Noted.")


def outbox(home: str) -> None:
    """Turns and memory changes that wait for a service that cannot be reached."""
    write(home, "config.yaml", "memory:\n  provider: hindsight\n")
    write(
        home,
        "hindsight.json",
        json.dumps({"mode": "local_external", "api_url": "http://127.0.0.1:9", "retain_every_n_turns": 1}),
    )
    with MemorySession.open(home, source="cli") as session:
        session.prepare_turn("The ferry to Bergen leaves at nine.")
        session.call_tool("memory", {"action": "add", "target": "user", "content": "Takes the ferry to Bergen."})
        session.finish_turn("Noted.")


def write(home: str, name: str, text: str) -> None:
    path = os.path.join(home, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


# What a reader of the home sees: the outputs are kept beside it, and every later version must print the same.
QUESTIONS = {
    everyday: [
        ["memory", "list", "--json"],
        ["memory", "log", "--json"],
        ["memory", "pending", "--json"],
        ["memory", "list", "--archived", "--json"],
        ["skills", "list", "--json"],
        ["skills", "show", "release"],
        ["curator", "log", "--json"],
        ["sessions", "list", "--json"],
        ["sessions", "search", "which fjord did we choose?", "--json"],
        ["sessions", "search", "認証", "--json"],
        ["sessions", "export", "--all"],
    ],
    split: [["sessions", "list", "--json"], ["sessions", "export", "--all"]],
    people: [
        ["users", "list", "--json"],
        ["--user", "anna", "memory", "list", "--json"],
        ["--user", "bo", "sessions", "export", "--all"],
    ],
    provider: [
        ["memory", "status", "--json"],
        ["tool", "fact_store", '{"action": "search", "query": "train to Porto"}'],
        ["sessions", "export", "--all"],
    ],
    outbox: [["memory", "list", "--json"], ["memory", "log", "--json"], ["sessions", "export", "--all"]],
}


def main(out: str) -> None:
    for make, questions in QUESTIONS.items():
        top = os.path.join(out, make.__name__)
        shutil.rmtree(top, ignore_errors=True)
        home = os.path.join(top, "home")
        os.makedirs(home)
        make(home)
        shutil.rmtree(os.path.join(top, "work"), ignore_errors=True)
        with zipfile.ZipFile(f"{top}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for folder, folders, names in os.walk(home):
                folders.sort()
                for name in sorted(names):
                    path = os.path.join(folder, name)
                    archive.write(path, os.path.relpath(path, home))
        answers = [{"words": words, "answer": hermes(home, *words)} for words in questions]
        with zipfile.ZipFile(f"{top}.zip", "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("answers.json", json.dumps(answers, ensure_ascii=False, indent=1))
        shutil.rmtree(top)


if __name__ == "__main__":
    main(sys.argv[1])
