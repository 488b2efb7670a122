"""What the threat scanner answers: a level, the findings behind it, and what to do next.

| class          | what it means                                                                             |
|----------------|-------------------------------------------------------------------------------------------|
| override       | tells the model to drop, replace or outrank its instructions                              |
| role_hijack    | gives the model another identity, persona or mode                                         |
| jailbreak      | asks for answers without rules, filters or refusals                                       |
| concealment    | hides something from the user, or acts without asking                                     |
| exfiltration   | sends conversation, files or secrets somewhere (commands, links, images, mail)            |
| secret_reading | reads or prints credentials, key files, environment secrets                               |
| persistence    | plants keys, start-up entries, agent configuration or instructions that survive           |
| standing_order | a rule for every later session that harms, leaks, hides or advertises                     |
| false_policy   | invented authority: a policy, approval or update that lifts a safeguard                   |
| poisoned_advice| bias and planted experience: push a brand or source, imitate a "successful" unsafe record |
| prompt_leak    | makes the model reveal its prompt or hidden context                                       |
| forged_markup  | pretends to be a fence, header, marker, chat-template token, role line or delimiter       |
| promptware     | turns the agent into a remote-controlled or self-spreading program                        |
| hostile_action | an order to damage, pay, or weaken something, with no other cover                         |
| hidden_text    | text that a person cannot see: tag characters, variation selectors, bidi, invisible runs  |
"""

from __future__ import annotations

from hermes.base.values import value

CLEAN = "clean"
ASK = "ask"
REFUSE = "refuse"

SEVERITY = {CLEAN: 0, ASK: 1, REFUSE: 2}
LONGEST_EXCERPT = 200

_ADVICE = {
    ASK: "Show the excerpt to a person and keep the text only if they meant it; otherwise reword it as a plain fact.",
    REFUSE: "Do not store or follow this text; state the plain fact you need without instructions to the model.",
}


@value
class Finding:
    """One reason for a verdict: the class of attack, where it is, and how it was disguised."""

    threat: str
    level: str
    excerpt: str
    how: str = "plain"
    start: int = -1
    end: int = -1


@value
class Verdict:
    """The scanner's judgement of a text: the level decides, the rest explains it to a person."""

    level: str
    findings: tuple[Finding, ...] = ()
    classes: tuple[str, ...] = ()
    excerpt: str = ""
    advice: str = ""


NOTHING_FOUND = Verdict(level=CLEAN)


def conclude(findings: list[Finding]) -> Verdict:
    """The verdict on a text: the level of its worst finding, and one finding per class and disguise."""
    if not findings:
        return NOTHING_FOUND
    kept: dict[tuple[str, str], Finding] = {}
    for finding in sorted(findings, key=lambda each: (-SEVERITY[each.level], each.how != "plain")):
        kept.setdefault((finding.threat, finding.how), finding)
    ordered = tuple(kept.values())
    worst = ordered[0]
    return Verdict(
        level=worst.level,
        findings=ordered,
        classes=tuple(dict.fromkeys(finding.threat for finding in ordered)),
        excerpt=worst.excerpt,
        advice=advice(worst.level),
    )


def advice(level: str) -> str:
    """What to do about a text of this level."""
    return _ADVICE[level]


def shorten(text: str) -> str:
    """An excerpt a person can read: one line, bounded, with nothing invisible in it."""
    shown = "".join(char if char.isprintable() else " " for char in text[: 2 * LONGEST_EXCERPT])
    shown = " ".join(shown.split())
    return shown if len(shown) <= LONGEST_EXCERPT else shown[: LONGEST_EXCERPT - 1] + "…"
