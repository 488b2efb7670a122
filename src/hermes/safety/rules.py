"""Matches the scanner's rules: which concepts and signs stand near each other, and where."""

from __future__ import annotations

import re
from itertools import islice

from hermes.base.errors import ScannerUnavailable
from hermes.safety import classifier as weights
from hermes.safety.lexicon import BLOCK, BOUNDARY, LONG_TEXT, Lexicon, Runs, bit, concept_mask, known_bits
from hermes.safety.tables import load_lines, load_table
from hermes.safety.verdict import ASK, REFUSE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes.safety.classifier import Scale
    from hermes.safety.lexicon import Reading, Standing, Step

_FIRST = 0xE800
_KINDS = (
    "url", "local_url", "url_open", "image_open", "secret_url", "mail", "secret_var", "secret_file", "key_file",
    "startup", "auth_keys", "agent_file", "pipe_shell", "append_to", "public_ip", "iban", "crypto_address",
    "ssh_public", "root_path", "reverse_shell", "bearer_header", "env_dump", "ip_url",
)  # fmt: skip
ATOMS = {kind: chr(_FIRST + index) for index, kind in enumerate(_KINDS)}
SIGNS = frozenset(ATOMS.values())

# What an atom means beyond its own name, as a table that every lexicon loads.
CONCEPTS = dict(ATOMS)
CONCEPTS["url"] = ATOMS["url"] + " " + ATOMS["url_open"] + " " + ATOMS["secret_url"] + " " + ATOMS["image_open"]
CONCEPTS["url"] += " " + ATOMS["ip_url"]
CONCEPTS["public_ip"] = ATOMS["public_ip"] + " " + ATOMS["ip_url"]
CONCEPTS["url_open"] = ATOMS["url_open"] + " " + ATOMS["image_open"]
CONCEPTS["secret_file"] = ATOMS["secret_file"] + " " + ATOMS["key_file"]
CONCEPTS["header"] = ATOMS["bearer_header"]
CONCEPTS["outside"] = CONCEPTS["public_ip"]
CONCEPTS["account"] = ATOMS["iban"] + " " + ATOMS["crypto_address"]
CONCEPTS["iban"] = ATOMS["iban"] + " " + ATOMS["crypto_address"]
CONCEPTS["secret_var"] = ATOMS["secret_var"] + " " + ATOMS["secret_url"]

_SPACED = (
    ("ssh-rsa aaaa", "ssh_public"),
    ("ssh-ed25519 aaaa", "ssh_public"),
    ("rm -rf /", "root_path"),
    ("rm -rf ~", "root_path"),
    ("rm -rf $home", "root_path"),
    ("rm -rf --no-preserve-root", "root_path"),
)
_groups: dict[str, list[tuple[str, str]]] = {}
# Endings of host names that are hardly ever endings of file names or of identifiers.
_TOP_LEVELS = (
    "com|net|org|io|xyz|top|site|click|online|biz|info|news|club|shop|store|link|live|cloud|space|website|host|cc|tk|pw|lol"
    "|ru|cn|su|onion|example|app|dev|tech|pro|icu|vip|fun|world|today|email|gg|ai|co|me|tv|ws|to|st"
)
_HOST = r"(?<![\w./@:$-])(?:[a-z0-9-]{1,40}\.){1,4}(?:" + _TOP_LEVELS + r")(?![\w-]|\.\w|/?\()(?:/[^\s\"'<>)]{0,200})?"
_EXPRESSIONS = (
    ("!", r"!\[[^\]\n]{0,80}\]\(\s?[^)\n]{1,400}\)?", "image"),
    ("://", r"(?:https?|ftp|wss?|hxxps?)://[^\s\"'`<>)\]]{1,400}(?:<[a-z_ ]{1,30}>[^\s\"'`<>)\]]{0,100})?", "url"),
    ("a mailbox", r"[a-z0-9._%+-]{1,64}(?:@|\[at\])[a-z0-9-]{1,64}\.[a-z0-9.-]{2,64}", "mail"),
    ("a host", _HOST, "domain"),
    ("www.", r"\bwww\.[a-z0-9.-]{2,80}(?:/[^\s\"'<>)]{0,200})?", "url"),
    (".env", r"(?<![a-z0-9])\.env(?:\.(?:local|production|prod))?(?![a-z0-9.])", "secret_file"),
    (
        "$",
        r"\$\{?\(?(?:env:)?[a-z0-9_]{0,40}(?:key|token|secret|passw|credential|auth)[a-z0-9_]{0,40}\}?",
        "secret_var",
    ),
    ("a secret name", r"\b[a-z0-9_]{0,40}_(?:key|token|secret|password|credentials)\b", "secret_var"),
    ("%", r"%[a-z0-9_]{0,40}(?:key|token|secret|passw)[a-z0-9_]{0,40}%", "secret_var"),
    ("{{", r"\{\{ ?[a-z0-9_. ]{0,40}(?:key|token|secret|passw)[a-z0-9_. ]{0,40}\}\}", "secret_var"),
    ("|", r"\| ?(?:sudo )?(?:ba|z)?sh\b|\| ?python3?\b|\| ?iex\b", "pipe_shell"),
    ("bash <(", r"bash <\(curl", "pipe_shell"),
    ("$(", r"\$\(\s?(?:curl|wget)\b", "pipe_shell"),
    ("an address", r"(?<![0-9a-z.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9]|\.[0-9])", "ip"),
    ("0x", r"0x(?<!\w0x)[0-9a-f]{40}\b", "crypto_address"),
    ("bc1", r"bc1(?<!\wbc1)[a-z0-9]{20,60}\b", "crypto_address"),
    ("an account", r"\b[a-z]{2}[0-9]{2}[a-z0-9]{11,30}\b", "iban"),
    ("an account in groups", r"\b[a-z]{2}[0-9]{2}(?: [a-z0-9]{4}){3,7}(?: [a-z0-9]{1,4})?\b", "iban"),
)
_TAG = (
    r"</?(?:b|i|u|s|em|strong|span|p|br|li|ul|ol|td|tr|th|table|div|font|a|h[1-6]|code|pre|mark|small|sub|sup)"
    r"\b[^<>\n]{0,80}>"
)
_LIST_NUMBER = r"\n[ \t]{0,4}[0-9]{1,3}[.)](?=\s)"
_FIRST_NUMBER = re.compile(r"[ \t]{0,4}[0-9]{1,3}[.)](?=\s)")
_compiled: dict[str, re.Pattern[str]] = {}
_beginnings: dict[str, tuple[re.Pattern[str], dict[str, list[tuple[str, str]]]]] = {}
_DIGIT = re.compile("[0-9]")
_SPACE = re.compile(r"\s")
_MANY = 64  # places, from which on it is quicker to read the whole text
_NUMERIC_HOST = re.compile(r"://(?!(?:127|10|192\.168|0)\.)[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9.])")
_HOST_ENDING = re.compile(rf"\.(?:{_TOP_LEVELS})(?![\w-])")
_MAILBOX = re.compile(r"@(?<=[a-z0-9._%+-]@)[a-z0-9-]{1,64}\.[a-z0-9.-]{2}|\[at\]")
_SECRET_ENDING = re.compile(r"_(?:key|token|secret|password|credentials)\b")
_FOUR_NUMBERS = re.compile(r"[0-9]\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]")
_ACCOUNT = re.compile("[a-z]{2}[0-9]{2}[a-z0-9]{11}")
_LOCAL = (
    "//localhost", "//127.", "//10.", "//192.168.", "//0.0.0.0", "//[::1]",
    ".internal", ".local", ".svc", ".lan", ".test", ".corp",
)  # fmt: skip
_LITERAL_SIGNS = (".", "/", ">", "_", "\\", "ssh-", "rm -")
_PRIVATE = ("127.", "10.", "192.168.", "172.16.", "172.17.", "172.18.", "0.0.", "169.254.", "255.")
_FEWEST_IBAN_DIGITS = 12
_FIRST_PUBLIC_OCTET = 4  # below, four numbers with dots are more often a version than an address


def mark(text: str) -> str:
    """Folded `text` with every atom replaced by its character."""
    if "</" in text:
        text = re.sub(_TAG, _blank, text)
    has_digit = _DIGIT.search(text) is not None
    if has_digit:
        text = _without_list_numbers(text)
    runs = Runs(text)
    for sign, source, kind in _EXPRESSIONS:
        if sign in _WITH_DIGITS and not has_digit:
            continue
        replace = _REPLACERS.get(kind) or _padded(kind)
        if sign in _HINTS:
            places = list(islice(_HINTS[sign](text, runs), _MANY))
            if places:
                text = _marked_beside(text, places, _expression(source), replace)
        elif _GUARDS[sign](text, runs) if sign in _GUARDS else sign in text:
            text = _expression(source).sub(replace, text)
    return _with_literals(text)


def _expression(source: str) -> re.Pattern[str]:
    if source not in _compiled:
        _compiled[source] = re.compile(source)
    return _compiled[source]


def _with_literals(text: str) -> str:
    for sign, group in _grouped().items():
        if sign in text:
            for literal, kind in group if len(text) < LONG_TEXT else _beginning_in(text, sign, group):
                if literal in text:
                    text = _replace_literal(text, literal, kind)
    return text


def _marked_beside(
    text: str, places: list[int], pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str]
) -> str:
    """`text` with what `pattern` matches replaced; where that is in few places, only what is around them is read."""
    if len(places) == _MANY or len(text) < LONG_TEXT:
        return pattern.sub(replace, text)
    pieces: list[str] = []
    done = 0
    for place in places:
        if place < done:
            continue
        # None of these expressions matches white space, and folding leaves but four kinds of it.
        start = max(done, *(text.rfind(space, done, place) for space in " \n\t\r"))
        end = behind.start() if (behind := _SPACE.search(text, place)) else len(text)
        pieces += [text[done:start], pattern.sub(replace, text[start:end])]
        done = end
    return "".join([*pieces, text[done:]])


def _beginning_in(text: str, sign: str, group: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the literals with `sign` whose next two characters follow that sign somewhere, in their order."""
    if sign not in _beginnings:
        by_next: dict[str, list[tuple[str, str]]] = {}
        for literal, kind in group:
            by_next.setdefault(literal.partition(sign)[2][:2], []).append((literal, kind))
        either = "|".join(map(re.escape, by_next))
        _beginnings[sign] = re.compile(f"{re.escape(sign)}({either})"), by_next
    pattern, by_next = _beginnings[sign]
    wanted = {pair for beginning in set(pattern.findall(text)) for pair in by_next[beginning]}
    return [pair for pair in group if pair in wanted]


def _without_list_numbers(text: str) -> str:
    if _FIRST_NUMBER.match(text):
        text = _FIRST_NUMBER.sub(_blank, text, count=1)
    return re.sub(_LIST_NUMBER, _blank, text) if "\n" in text else text


def _blank(found: re.Match[str]) -> str:
    return found[0].replace(found[0].strip(), " " * len(found[0].strip()))


def literals() -> list[str]:
    """The plain texts that mean something by themselves."""
    return [literal for literal, _ in _load()]


def _load() -> list[tuple[str, str]]:
    found = [(word, kind) for kind, words in load_table("atoms.txt").items() for word in words.split()]
    return [*found, *_SPACED]


def _grouped() -> dict[str, list[tuple[str, str]]]:
    """The literals under a sign that each of a group holds: a text without the sign is not searched for any of them."""
    if not _groups:
        for literal, kind in _load():
            sign = next((sign for sign in _LITERAL_SIGNS if sign in literal), literal)
            _groups.setdefault(sign, []).append((literal, kind))
    return _groups


def _replace_literal(text: str, literal: str, kind: str) -> str:
    if kind == "key_file" and ".pub" in text:
        text = text.replace(literal + ".pub", " " * (len(literal) + 4))
    return text.replace(literal, ATOMS[kind] + " " * (len(literal) - 1))


def _padded(kind: str) -> Callable[[re.Match[str]], str]:
    char = ATOMS[kind]
    return lambda found: char + " " * (found.end() - found.start() - 1)


def _mark_url(found: re.Match[str]) -> str:
    address = found[0]
    return _fill(_kind_of_url(address), address)


def _mark_image(found: re.Match[str]) -> str:
    address = found[0]
    return _fill("image_open" if "://" in address and _is_open(address) else "url", address)


def _kind_of_url(address: str) -> str:
    if any(mark in address for mark in _LOCAL):
        return "local_url"
    if "$" in address:
        return "secret_url"
    if _is_open(address):
        return "url_open"
    return "ip_url" if _NUMERIC_HOST.search(address) else "url"


def _is_open(address: str) -> bool:
    """True for an address that leaves a hole for data: a placeholder, or a query that ends in an equals sign."""
    address = address.rstrip(".,;:")  # the sentence goes on, or ends
    path = address.partition("://")[2].partition("/")[2] or address.partition("?")[2]
    hole = any(mark in path for mark in ("{", "<", "[", "$(", "%s", "base64", "...", "…", "`")) or path.endswith("=")
    return hole and ("?" in address or "=" in path or "{" in path or "<" in path or "[" in path)


def _mark_ip(found: re.Match[str]) -> str:
    address = found[0]
    version = int(address.partition(".")[0]) < _FIRST_PUBLIC_OCTET
    return address if address.startswith(_PRIVATE) or version else _fill("public_ip", address)


def _mark_iban(found: re.Match[str]) -> str:
    text = found[0]
    return _fill("iban", text) if sum(char.isdigit() for char in text) >= _FEWEST_IBAN_DIGITS else text


def _fill(kind: str, text: str) -> str:
    return ATOMS[kind] + " " * (len(text) - 1)


def _secret_names(text: str, _: Runs) -> Iterator[int]:
    return (found.start() for found in _SECRET_ENDING.finditer(text)) if "_" in text else iter(())


def _mailboxes(text: str, _: Runs) -> Iterator[int]:
    return (found.start() for found in _MAILBOX.finditer(text))


def _hosts(text: str, _: Runs) -> Iterator[int]:
    return (found.start() for found in _HOST_ENDING.finditer(text))


def _addresses(text: str, runs: Runs) -> Iterator[int]:
    return (place for place, end in runs.addresses() if _FOUR_NUMBERS.search(text, place, end))


def _accounts(text: str, runs: Runs) -> Iterator[int]:
    return (place for place, end in runs.accounts() if _ACCOUNT.search(text, place, end))


def _has_groups_of_four(_: str, runs: Runs) -> bool:
    return runs.account_in_groups()


# What only digits can be part of.
_WITH_DIGITS = frozenset({"an address", "0x", "bc1", "an account", "an account in groups"})
# Where an expression may match.
_HINTS: dict[str, Callable[[str, Runs], Iterator[int]]] = {
    "a mailbox": _mailboxes,
    "a secret name": _secret_names,
    "a host": _hosts,
    "an address": _addresses,
    "an account": _accounts,
}
# What an expression can only match beside, looked for first because it is quicker to find.
_GUARDS: dict[str, Callable[[str, Runs], bool]] = {
    "an account in groups": _has_groups_of_four,
}
_REPLACERS: dict[str, Callable[[re.Match[str]], str]] = {
    "url": _mark_url,
    "domain": _mark_url,
    "image": _mark_image,
    "ip": _mark_ip,
    "iban": _mark_iban,
}


# Finds where the concepts of a rule stand in order, each near enough to the one before it.
#
# A rule is `ignore 5 prior|all 3 instr` (at most five words, then at most three words between) or `any 6: a b c` for
# every order. The places of a concept are one long number, a bit for each word of the text, so a step of a rule is a
# few operations on such numbers, whatever the text: from the last step to the first, each keeps the places from which
# the rest of the rule can be reached. Before that it is tried with a bit for each block of words, which is quicker
# and enough to tell that most rules match nowhere. Nothing has to be compiled before it can be tried.


def orders_of(source: str) -> list[list[Step]]:
    """Every order of steps that a rule allows, as written in `lexicons/*.rules`."""
    if source.startswith("any "):
        from itertools import permutations

        head, _, body = source.partition(": ")
        masks = [concept_mask(part) for part in body.split()]
        return [[(mask, int(head[4:]), 0) for mask in order] for order in permutations(masks)]
    steps: list[Step] = []
    gap, without = "0", ""
    for part in source.split():
        if part[0].isdigit():
            gap, _, without = part.partition("!")
        else:
            steps.append((concept_mask(part), int(gap), concept_mask(without) if without else 0))
            gap, without = "0", ""
    return [steps]


def spans(
    reading: Standing, orders: Sequence[Sequence[Step]], most: int, stretch: int | None = None
) -> Iterator[tuple[int, int]]:
    """Where the first `most` matches begin and end, by their beginnings; with `stretch`, in each so many words.

    Each is looked for when somebody asks for it.
    """
    if not _may_match(reading, orders):
        return
    stretch = stretch or len(reading.codes)
    if len(orders) == 1:
        yield from _spans_in_order(reading, orders[0], most, stretch)
        return
    tried: dict[int, int] = {}
    for start, end in sorted(span for steps in orders for span in _spans_in_order(reading, steps, most, stretch)):
        part = start // stretch
        tried[part] = tried.get(part, 0) + 1
        if tried[part] <= most:
            yield start, end


def _may_match(reading: Standing, orders: Sequence[Sequence[Step]]) -> bool:
    """Whether the blocks that the steps stand in are near enough to each other; those of most rules are not."""
    if len(orders) > 1:
        return _may_match_in_any_order(reading, orders[0])
    blocks_of, chain = reading.blocks_of, -1
    for concepts, gap, _ in reversed(orders[0]):
        chain &= blocks_of(concepts)
        if not chain:
            return False
        for _ in range(0, gap + 1, BLOCK):
            chain |= chain >> 1
    return True


def _may_match_in_any_order(reading: Standing, steps: Sequence[Step]) -> bool:
    chain = -1
    for concepts, gap, _ in steps:
        near = reading.blocks_of(concepts)
        for _ in range(0, (gap + 1) * (len(steps) - 1), BLOCK):
            near |= near >> 1
        chain &= near
    return chain != 0


def _spans_in_order(reading: Standing, steps: Sequence[Step], most: int, stretch: int) -> Iterator[tuple[int, int]]:
    chain = reading.places_of(steps[-1][0])
    chains = [chain]
    for number in range(len(steps) - 2, -1, -1):
        if not chain:
            return
        step = steps[number + 1]
        before = reading.before(chain, step[1], step[2]) if len(chains) > 1 else reading.before_last(step)
        chain = reading.places_of(steps[number][0]) & before
        chains.append(chain)
    chains.reverse()
    tried = behind = 0
    while chain:
        start = end = _first(chain)
        if start >= behind:  # of the stretch of words that the matches so far begin in
            tried, behind = 0, (start // stretch + 1) * stretch
        if tried == most:
            chain = chain >> behind << behind
            continue
        tried += 1
        for places in chains[1:]:
            end += 1 + _first(places >> (end + 1))
        yield start, end + 1
        chain ^= 1 << start


def _first(places: int) -> int:
    return (places & -places).bit_length() - 1


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
    tables = [*(load_table(f"{name}.txt") for name in names), CONCEPTS]
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
