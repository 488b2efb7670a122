"""The threat scanner: what may enter a prompt."""

REQUIREMENTS = {
    "threats.attacks": (
        "at least 85 % of realistic memory attacks are asked about or refused, every class at least 80 %",
        "003 Security and Safety",
    ),
    "threats.languages": ("attacks are recognised in Chinese, Spanish and at least ten more languages", "product"),
    "threats.disguises": ("at least 92 % of the disguises of what is caught in plain form are caught", "product"),
    "threats.harmless": (
        "facts, preferences, ops notes, other scripts, emoji: none refused; look-alikes: 2 % refused, 12 % asked",
        "product",
    ),
    "threats.floor": ("what the documents' patterns match is never rated below ask", "003 Security and Safety"),
    "threats.guard": ("a second opinion may turn a question into a refusal; it is off unless asked for", "product"),
    "threats.neighbours": ("harmless text around an attack does not weaken the verdict on it", "product"),
    "threats.verdict": ("a verdict names its classes, shows the decoded excerpt and says what to do", "product"),
    "threats.entries": ("a phrase split over entries and a forged marker are caught", "003 Security and Safety"),
    "threats.hidden": (
        "text nobody can see is decoded and refused; honest joiners and flags pass",
        "003 Security and Safety",
    ),
    "threats.linear": ("scanning takes time in proportion to the length, also for hostile input", "product"),
    "threats.total": ("no text makes the scanner raise", "product"),
    "threats.closed": ("a scanner that cannot load its tables raises instead of calling a text clean", "product"),
}
