"""Class rules: loads them, decides which can apply to a reading, and finds where they match."""

from __future__ import annotations

from hermes.safety import atoms, weights
from hermes.safety.lexicon import Lexicon, bit, concept_mask, known_bits
from hermes.safety.matching import orders_of, spans
from hermes.safety.tables import load_lines, load_table
from hermes.safety.verdict import ASK, REFUSE
from hermes.safety.words import BOUNDARY
from hermes.vocabulary.errors import ScannerUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.safety.lexicon import Reading
    from hermes.safety.standing import Step
    from hermes.safety.weights import Scale

_MATCHES_TRIED = 8  # a negated match is no match; how many to look at before giving up on a rule
_STRETCH = 4_000  # words; where many matches are denied, as many are looked at in each
_NEGATION_REACH = 3
_MENTION_REACH = 14
_ORDER_BEGINS_WITHIN = 3
_ADDRESSED_OR_NAMED = (
    "you|your|to_model|user|this_note|itself|here_text|stealth|unasked|url|mail|public_ip|secret_file|key_file|startup"
    "|auth_keys|agent_file|pipe_shell|iban|crypto_address|root_path|reverse_shell|secret_var|net_tool|backdoor|c2"
)
# A policy that forbids what these do is a policy; only their words are the same.
_FORBIDDABLE = frozenset({"false_policy", "exfiltration", "secret_reading", "poisoned_advice"})
_MENTIONABLE = frozenset(
    {"override", "role_hijack", "jailbreak", "concealment", "prompt_leak", "promptware", "secret_reading"}
)


class Rule:
    __slots__ = ("_orders", "level", "need", "negatable", "source", "threat")

    def __init__(self, threat: str, level: str, source: str, need: list[int], negatable: bool) -> None:  # noqa: FBT001
        self.threat, self.level, self.source = threat, level, source
        self.need, self.negatable = need, negatable
        self._orders: list[list[Step]] = []

    @classmethod
    def parse(cls, line: str) -> Rule:
        head, _, source = line.partition(": ")
        threat, _, level = head.partition(" ")
        body = source.partition(": ")[2] if source.startswith("any ") else source
        concepts = [part for part in body.split() if not part[0].isdigit()]
        if level not in (ASK, REFUSE) or not concepts:
            raise ScannerUnavailable(f"threat rule {line!r} is not 'class ask|refuse: concept gap concept'; mend it")
        need = [concept_mask(part) for part in concepts]
        negatable = not need[0] & bit("not")
        # The narrowest concept first: it is asked for of every text, and is usually not there.
        return cls(threat, level, source, sorted(need, key=int.bit_count), negatable)

    def state(self) -> tuple[object, ...]:
        return self.threat, self.level, self.source, self.need, self.negatable

    def spans(self, reading: Reading, stretch: int | None) -> Iterator[tuple[int, int]]:
        """Where its first matches stand. Its steps are read when it is first tried: most rules never are."""
        if not self._orders:
            self._orders = orders_of(self.source)
        return spans(reading, self._orders, _MATCHES_TRIED, stretch)

    def says_to_ignore(self) -> bool:
        return any(mask & bit("ignore") for mask in self.need)

    def can_apply(self, present: int) -> bool:
        for mask in self.need:  # noqa: SIM110 - four times as fast as all() over a generator, and asked 400 times a scan
            if not present & mask:
                return False
        return True


class Match:
    __slots__ = ("end", "level", "rule", "start")

    def __init__(self, rule: Rule, level: str, start: int, end: int) -> None:
        self.rule, self.level, self.start, self.end = rule, level, start, end


def load_rules(name: str) -> list[Rule]:
    """The rules of a file, those that refuse first: in a long text the first refusal is the last thing looked for."""
    return sorted((Rule.parse(line) for line in load_lines(name)), key=lambda rule: rule.level != REFUSE)


def load_lexicon(*names: str) -> Lexicon:
    tables = [*(load_table(f"{name}.txt") for name in names), atoms.CONCEPTS]
    bits = known_bits()
    meanings = Lexicon(names[0], tables).meanings()
    # The concepts of most meanings get the lowest bits: numbers stay short, and the compiled tables small.
    frequent = sorted(bits, key=lambda concept: -sum(1 for mask in meanings if mask & bits[concept]))
    bits.clear()
    bits.update((concept, 1 << number) for number, concept in enumerate(frequent))
    return Lexicon(names[0], tables)


class Course:
    """How a text is scanned, and whether enough of it is asked about that only a refusal would make it worse."""

    __slots__ = ("_asked", "in_memory", "scope", "weigh")

    def __init__(self, scope: str, *, weigh: bool) -> None:
        self.scope, self.in_memory = scope, scope == "memory"
        self.weigh = weigh and self.in_memory
        self._asked = False

    def ask(self) -> None:
        self._asked = True

    def only_refusals(self) -> bool:
        return self._asked


def matches(
    scale: Scale, rules: list[Rule], course: Course, counts: Callable[[int, int], bool] | None = None
) -> Iterator[Match]:
    """One match per class and level at most, each as mild as its surroundings allow; else what weighs too much.

    As soon as only refusals matter, rules that would only ask are left out; they stand behind the others. What `counts`
    denies is no match.
    """
    done: set[tuple[str, str]] = set()
    reading = scale.reading
    present = reading.present
    for rule in rules:
        if not present & rule.need[0] or not rule.can_apply(present):
            continue
        if rule.level != REFUSE and course.only_refusals():
            return
        key = (rule.threat, rule.level)
        if key in done:
            continue
        found = _first_match(scale, rule, course, counts)
        if found is not None:
            done.add(key)
            yield found
    if course.weigh and not done and not course.only_refusals() and (heavy := scale.heavy_stretch()) is not None:
        start, end, mask = heavy
        if counts is None or counts(start, end):
            yield Match(_nearest(rules, mask), ASK, start, end)


def _nearest(rules: list[Rule], present: int) -> Rule:
    """The rule that lacks the least of what it needs: it says what class the text is most like."""
    likely = [rule for rule in rules if present & rule.need[0]] or rules
    return max(likely, key=lambda rule: len([1 for mask in rule.need if present & mask]) / (len(rule.need) + 1))


def _first_match(scale: Scale, rule: Rule, course: Course, counts: Callable[[int, int], bool] | None) -> Match | None:
    reading = scale.reading
    for start, end in rule.spans(reading, _STRETCH if counts else None):
        if not (rule.negatable and _negated(reading, start)) and (counts is None or counts(start, end)):
            level = _level_here(scale, rule, (start, end), course)
            if level is not None:
                return Match(rule, level, start, end)
    return None


def _negated(reading: Reading, start: int) -> bool:
    before = reading.codes[max(0, start - _NEGATION_REACH) : start].rpartition(BOUNDARY)[2]
    masks = [reading.lexicon.mask_behind(code) for code in before]
    return any(mask & bit("not") for mask in masks) and not any(mask & bit("but_do") for mask in masks)


def _level_here(scale: Scale, rule: Rule, span: tuple[int, int], course: Course) -> str | None:
    """Text that quotes attacks, or describes a thing without addressing anyone, is worth a question, not a refusal.

    What is only worth a question is worth nothing beside a word of the trade that handles attacks (linter, fixture) or
    in a sentence that forbids it; nothing is worth a question among words that hardly ever stand in attacks. A sentence
    that is light as a whole is not refused, and in a harmless one light words do not count, unless they say to ignore.
    """
    (start, end), reading = span, scale.reading
    weight = scale.around(start, end)
    if len(rule.need) == 1:  # one phrase is little to go by
        weight = min(weight, scale.of_sentence(start, end))
    if weight < (weights.LEAST_TO_REFUSE if rule.level == REFUSE else weights.LEAST_TO_ASK):
        return None
    if not scale.in_brief(start, end):
        sentence = scale.of_sentence(start, end)
        if weight < weights.LIGHT and sentence < weights.HARMLESS and not rule.says_to_ignore():
            return None
        if not course.in_memory or (rule.level == REFUSE and not rule.says_to_ignore()):
            weight = min(weight, sentence)
    forbidden = rule.threat in _FORBIDDABLE and _near(reading, start, end, "forbids")
    if rule.level != REFUSE:
        return None if forbidden or weight < 0 or _near(reading, start, end, "tooling") else rule.level
    if weight < weights.LIGHT:
        return None if forbidden else ASK
    mentioned = rule.threat in _MENTIONABLE and _near(reading, start, end, "mention")
    if forbidden or mentioned or _describes(reading, start, end) or _is_aside(reading, start, end):
        return ASK
    return REFUSE


def _near(reading: Reading, start: int, end: int, concept: str) -> bool:
    return reading.holds(max(0, start - _MENTION_REACH), end + _MENTION_REACH, bit(concept))


def _describes(reading: Reading, start: int, end: int) -> bool:
    """True for a sentence that begins like a description ("the", "our", "we") and never says "you"."""
    first = reading.codes.rfind(BOUNDARY, 0, start) + 1
    last = reading.codes.find(BOUNDARY, end)
    sentence = reading.codes[first : last if last >= 0 else len(reading.codes)]
    meaning = reading.lexicon.mask_behind
    addressed = concept_mask("you|your")
    return bool(meaning(sentence[0]) & bit("declarative")) and not any(
        meaning(code) & addressed for code in set(sentence)
    )


def _is_aside(reading: Reading, start: int, end: int) -> bool:
    """True for a match in the middle of an English sentence that speaks to nobody and names no place or file.

    An order begins with its verb or its occasion; package documentation has the same words further in.
    """
    if reading.lexicon.name != "english":
        return False
    first = reading.codes.rfind(BOUNDARY, 0, start) + 1
    last = reading.codes.find(BOUNDARY, end)
    if start - first <= _ORDER_BEGINS_WITHIN:
        return False
    meaning, named = reading.lexicon.mask_behind, concept_mask(_ADDRESSED_OR_NAMED)
    return not any(meaning(code) & named for code in set(reading.codes[first : last if last >= 0 else None]))
