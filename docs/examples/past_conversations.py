"""Every past conversation, one question away."""

import tempfile

from hermes import SessionDB

with tempfile.TemporaryDirectory() as folder, SessionDB.open(f"{folder}/state.db") as db:
    session = db.create_session(source="cli", title="auth")
    db.append(session, {"role": "user", "content": "Should we use JWT or server sessions for auth?"})
    db.append(session, {"role": "assistant", "content": "Server sessions: we need to revoke them at once."})
    best = db.search("what did we decide about auth?")[0]
    print(best.session_id == session, best.snippet)
