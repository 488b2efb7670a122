"""Splits any text into the words that the full-text index holds, and knows what English questions are made of.

The word lists know no topic: they hold irregular forms, words that only ask or frame a question, and words for times
and numbers.
"""

from __future__ import annotations

import operator
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Marks count as letters: Thai, Khmer and Indic vowels are marks, and a word must not fall apart at each of them.
TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
_TOKENIZER_ARGUMENTS = ["unicode61", "remove_diacritics", "2", "categories", "L* N* Co Mn Mc"]

# Thai, Lao, Tibetan, Myanmar, Hangul Jamo, Khmer, kana, CJK ideographs with their extensions, Hangul, Yi.
UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ecf\u0edc-\u0edf\u0f40-\u0fbc\u1000-\u109f\u1100-\u11ff\u1780-\u17d3"
    "\u2e80-\u2fd5\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa"
    "\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48c"
    "\ua960-\ua97c\uaa60-\uaa7f\uac00-\ud7fb\uf900-\ufaff\U00016fe0-\U00016fff\U00017000-\U00018d08"
    "\U0001aff0-\U0001b2fb\U00020000-\U000323af"
)
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
# Finds where such runs may be. Not "[…]+": what begins with a set is looked for by that set, which is much faster.
_NOT_ASCII = re.compile("[^\x00-\x7f][^\x00-\x7f]*")
# Small letters and digits, capitals, all else: where a small letter meets a capital, a name has parts. Translating
# bytes and looking for two of them is twenty times faster than a regular expression.
_KINDS = bytes(
    ord("a") if chr(byte) in "abcdefghijklmnopqrstuvwxyz0123456789" else ord("A") if 65 <= byte <= 90 else 32  # noqa: PLR2004 - A to Z
    for byte in range(256)
)
_CAMEL_BORDER = re.compile(rb"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SURROGATES = re.compile("[\ud800-\udfff]")


def searchable(text: str) -> str:
    """Prepares a text for the index: composes characters, pairs up unspaced scripts, and splits identifiers."""
    if not text.isascii():
        text = _in_pairs(_composed(text))
    if "\x00" in text:
        text = text.replace("\x00", " ")  # SQLite ends a text at the first NUL
    parts = camel_parts(text)
    return f"{text} {parts}" if parts else text


def scrub(text: str) -> str:
    """The text with lone surrogates replaced, because UTF-8 cannot hold them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


def words_in(text: str) -> int:
    """About how many words the index holds of a text: one per space or line, four to three signs of unspaced script."""
    count = max(text.count(" "), text.count("\n")) + 1
    return count if text.isascii() else count + sum([4 * len(run) // 3 for run in _UNSPACED_RUN.findall(text)])


class Words:
    """Splits text exactly as the index does, by calling the index's own tokenizer."""

    def __init__(self) -> None:
        connection = apsw.Connection(":memory:")  # for its tokenizer alone, so every engine has the same words
        self._tokenize: Callable[..., Any] = connection.fts5_tokenizer("porter", _TOKENIZER_ARGUMENTS)
        self._synonyms: dict[str, list[tuple[str, str]]] = {}
        self._fold: Callable[..., Any] = connection.fts5_tokenizer(_TOKENIZER_ARGUMENTS[0], _TOKENIZER_ARGUMENTS[1:])

    def of(self, text: str) -> list[str]:
        """Returns the stemmed words of a text in order."""
        return self.of_searchable(searchable(text))

    def of_searchable(self, prepared: str) -> list[str]:
        """Stemmed words of a text that `searchable` has prepared, without preparing it again."""
        return _tokens(self._tokenize, prepared)

    def unstemmed(self, prepared: str) -> list[str]:
        """Returns the words without case and accents but with their endings."""
        return _tokens(self._fold, prepared)

    def synonyms(self, stem: str) -> list[tuple[str, str]]:
        """Everyday words that mean the same as this one, as written and stemmed."""
        if not self._synonyms:
            for family in SYNONYMS.split("|"):
                plain, _, others = family.partition(" > ")
                words = [(word, self.of(word)[0]) for word in f"{plain} {others}".split()]
                for word in plain.split():
                    its = self._synonyms.setdefault(self.of(word)[0], [])
                    its += [each for each in words if each[0] != word and each not in its]
        return self._synonyms.get(stem, [])

    def places(self, text: str) -> list[tuple[int, int, str]]:
        """(start, end, stem) of each word in the UTF-8 bytes of a text that was not prepared: for snippets."""
        found: list[tuple[int, int, str]] = self._tokenize(
            text.encode("utf-8", "replace"), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False
        )
        return found


def _tokens(tokenize: Callable[..., Any], prepared: str) -> list[str]:
    found: list[str] = tokenize(
        prepared.encode("utf-8", "replace"),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    return found


def camel_parts(text: str) -> str:
    """`getUserName` as "get User Name", for every such name in the text."""
    data = text.encode("utf-8", "replace")
    kinds = data.translate(_KINDS)
    at = kinds.find(b"aA")
    if at < 0:
        return ""
    found: list[bytes] = []
    while at >= 0:
        start = kinds.rfind(b" ", 0, at) + 1
        end = kinds.find(b" ", at)
        end = len(data) if end < 0 else end
        if kinds.find(b"AAa", start, end) >= 0:  # capitals of their own before the next part, as in HTTPServer
            found.append(_CAMEL_BORDER.sub(b" ", data[start:end]))
            at = kinds.find(b"aA", end)
            continue
        while 0 <= at < end:
            found.append(data[start : at + 1])
            start = at + 1
            at = kinds.find(b"aA", start)
        found.append(data[start:end])
    return b" ".join(found).decode()


def _composed(text: str) -> str:
    text = scrub(text)
    return text if unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)


def _in_pairs(text: str) -> str:
    return _NOT_ASCII.sub(_runs_in_pairs, text)


def _runs_in_pairs(part: re.Match[str]) -> str:
    return _UNSPACED_RUN.sub(_pairs, part[0])


def _pairs(run: re.Match[str]) -> str:
    # Pairs first, in order, so that a phrase is a stretch of them; then each character once, for queries of one.
    characters = run[0]
    pairs = " ".join(map(operator.add, characters, characters[1:]))
    return f" {pairs} {' '.join(dict.fromkeys(characters))} "


def query_pieces(text: str, words: Words) -> list[tuple[str, str]]:
    """The words of a question as written and stemmed; runs of unspaced script as pairs, or as the one character."""
    composed = _composed(text).replace("\x00", " ")
    found: list[tuple[str, str]] = []
    at = 0
    for run in _UNSPACED_RUN.finditer(composed):
        found += _spaced_pieces(composed[at : run.start()], words)
        characters = run[0]
        pairs = [characters[i : i + 2] for i in range(len(characters) - 1)] or [characters]
        found += [(pair, pair) for pair in pairs]
        at = run.end()
    return found + _spaced_pieces(composed[at:], words)


def _spaced_pieces(text: str, words: Words) -> list[tuple[str, str]]:
    data = text.encode()
    return [(data[start:end].decode(), stem) for start, end, stem in words.places(text)]


def unspaced_runs(text: str) -> Iterator[tuple[int, str]]:
    """Where runs of unspaced script start in a text, and the runs."""
    for run in _UNSPACED_RUN.finditer(text):
        yield run.start(), run[0]


def _words(text: str) -> list[str]:
    return text.split()


# Function words; a query drops them when other words remain.
STOP_WORDS = frozenset(
    _words("""
        a about am an and any are as at be been being but by can could d did do does doing don for from had has have
        having he her hers him his how i if in into is it its just ll m may me might mine my no not of on or our ours
        re s shall she should so some such t than that the their theirs them then there these they this those to too
        us ve was we were what when where which who whom whose why will with would you your yours ever say said tell
        please
    """)
)
# Words that frame a question about something else; they count little.
FRAME_WORDS = frozenset(
    _words("""
        many much more most often long far ago day days week weeks month months year years time times date dates total
        number order first earliest latest before after during between recently lately past current currently type
        types kind kinds sort thing things way ways different both mention mentioned also like likely recommend
        recommendation recommendations suggest suggestion suggestions think thinking advice tips help
    """)
)
# Question words and endings of Chinese and Japanese, where no space ends a word; no pair reaches across them.
UNSPACED_QUESTION_WORDS = re.compile(
    r"[为為](?:什么|什麼|甚麼)|什么|什麼|甚麼|怎么[样樣]?|怎麼樣?|怎[样樣]|如何|多少|[几幾](?=[个個年月日次位种種点點])"
    r"|哪[里裡裏儿兒个個些一种種位年]*|[谁誰]|[吗嗎呢么麼](?=[?\uff1f。\s]|$)"
    r"|何[年人時月日歳回とでがをに]?|どこ|どの(?:よう[なに])?|どんな|どう|どれ|いつ|だれ|なぜ|なに"
    r"|[のん]?(?:でしょう|でした|です|ました|ます)か?(?=[?\uff1f。\s]|$)|[かの](?=[?\uff1f。\s]|$)"
)
# A pair with a particle or any hiragana is seldom a word: it joins one word to the next, or ends one.
UNSPACED_PARTICLES = re.compile("[的了是在于於由与與和及之有以为為被把从從对對也就都而\u3041-\u3096]")
_FAMILIES = (
    "arise arose arisen|awake awoke awoken|bear bore born|beat beaten|become became|begin began begun|bend bent"
    "|bind bound|bite bit bitten|bleed bled|blow blew blown|break broke broken|bring brought|build built"
    "|burn burnt|buy bought|catch caught|choose chose chosen|cling clung|come came|creep crept|deal dealt|dig dug"
    "|draw drew drawn|dream dreamt|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed"
    "|feel felt|fight fought|find found|flee fled|fly flew flown|forbid forbade forbidden|forget forgot forgotten"
    "|forgive forgave forgiven|freeze froze frozen|get got gotten|give gave given|go goes went gone|grind ground"
    "|grow grew grown|hang hung|hear heard|hide hid hidden|hold held|keep kept|kneel knelt|know knew known"
    "|lay laid|lead led|lean leant|leap leapt|learn learnt|leave left|lend lent|lie lain|light lit|lose lost"
    "|make made|mean meant|meet met|pay paid|ride rode ridden|ring rang rung|rise rose risen|run ran|see saw seen"
    "|seek sought|sell sold|send sent|shake shook shaken|shine shone|shoot shot|show shown|shrink shrank shrunk"
    "|sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|smell smelt|speak spoke spoken|spend spent"
    "|spin spun|spoil spoilt|stand stood|steal stole stolen|stick stuck|sting stung|strike struck"
    "|swear swore sworn|sweep swept|swell swollen|swim swam swum|swing swung|take took taken|teach taught"
    "|tear tore torn|think thought|throw threw thrown|understand understood|wake woke woken|wear wore worn"
    "|weave wove woven|weep wept|win won|wind wound|withdraw withdrew withdrawn|write wrote written"
    "|child children|person people|man men|woman women|foot feet|tooth teeth|mouse mice|goose geese|life lives"
    "|wife wives|knife knives|leaf leaves|half halves|shelf shelves|loaf loaves|thief thieves|wolf wolves"
    "|good better best|bad worse worst"
    "|live moved"  # a question about where somebody lives also finds where they moved
)
# The same thing written short, or on the other side of the ocean.
_SHORT = (
    "admin administrator|app application|appt appointment|auth authentication|bday birthday|bike bicycle"
    "|config configuration|db database|dev development|docs documentation|env environment|exam examination"
    "|fav favorite favourite|fridge refrigerator|info information|js javascript|k8s kubernetes|lab laboratory"
    "|math maths mathematics|perf performance|phone telephone|photo photograph|plane airplane aeroplane"
    "|prod production|py python|repo repository|ts typescript|tv television|uni university|vet veterinarian"
    "|aluminium aluminum|center centre|color colour|cosy cozy|flavor flavour|gray grey|harbor harbour|honor honour"
    "|jewellery jewelry|labor labour|meter metre|neighbor neighbour|pajamas pyjamas|program programme|theater theatre"
    "|tire tyre|traveler traveller"
)
FORMS: dict[str, tuple[str, ...]] = {
    word: tuple(other for other in family.split() if other != word)
    for family in f"{_FAMILIES}|{_SHORT}".split("|")
    for word in family.split()
}
# Everyday words that mean the same, so that a question finds the other wording. The words after ">" have other meanings
# as well: they are found, but a question that contains them means just them.
SYNONYMS = (
    "kid child children|mom mum mother|dad father|grandma grandmother|grandpa grandfather|sibling > brother sister"
    "|parents > mother father mom dad|spouse > husband wife|fiance fiancee|boyfriend > partner|girlfriend > partner"
    "|buddy friend pal|baby newborn infant|teen teenager adolescent|relatives > family|colleague coworker workmate"
    "|boss > manager supervisor|job occupation profession career|salary wage > pay|employer > company"
    "|lawyer attorney|doctor physician|teacher instructor tutor|professor > lecturer|pupil student"
    "|college university|exam > test|essay > paper|thesis dissertation|lecture > class|course > class"
    "|movie film|series > show|photo picture pic photograph snapshot|song > track tune|novel > book|author > writer"
    "|concert gig|exhibit exhibition|painting > canvas|hobby pastime|game > match|competition contest tournament"
    "|award prize trophy|trip journey travel vacation|holiday vacation|flight > plane|airplane > flight"
    "|luggage baggage suitcase|hike trek|bicycle bike cycling|car vehicle automobile|truck lorry|taxi cab|boat ship"
    "|subway metro > underground|petrol > gas|beach shore seaside|ocean sea|woods forest|town city|country nation"
    "|apartment condo > flat|house home|couch sofa|yard garden|garbage trash rubbish|closet wardrobe"
    "|kitchenware cookware|furniture > couch table chair|shop > store|shopping > bought|purchase buy bought"
    "|gift > present|expensive costly pricey|cheap inexpensive|cost price|money cash|rent lease|debt loan"
    "|meal dish|dinner supper|dessert > cake|snack > treat|vegetables veggies|beverage > drink"
    "|restaurant diner bistro|recipe > dish|vegetarian vegan|grill barbecue bbq|sick ill|illness disease"
    "|medicine medication > drug|surgery > operation|pain ache|injury injured hurt|allergy allergic"
    "|workout exercise|gym fitness|jog > run running|diet > eating|weight > pounds kilos"
    "|therapist counselor counsellor|happy glad|sad unhappy|angry > mad|afraid scared|anxious nervous worried"
    "|tired exhausted|proud pride|excited thrilled|upset > sad|funny hilarious|beautiful gorgeous lovely"
    "|huge enormous|difficult tough|easy simple|problem issue|error bug|fix repair|begin start|finish complete"
    "|quit resign|choose pick|assist help|reply response|meeting > appointment|deadline > due|party celebration"
    "|wedding marriage married|puppy > dog|kitten > cat|pet > dog cat|laptop > computer|smartphone cellphone phone"
    "|email mail|website > site|password > login|software > app|folder directory|goal aim|idea concept"
    "|religion faith|church > temple|donate donation charity|decide decision|recommend recommendation"
    "|suggest suggestion|move relocate|drawing sketch"
)
# Words about the conversation itself ("our previous chat", "remind me", "I wanted to follow up") are not its topic.
_ABOUT_TALK = _words("""
    above again back brought chat chats confirm conversation conversations discuss discussed discussing discussion
    discussions earlier follow going last looking mention mentioned mentioning previous previously recall recap remember
    remind session sessions specific specifically talk talked talking through throughout told up wanted wonder wondering
""")
FRAME_WORDS |= frozenset(_ABOUT_TALK)
# Whether a question is about what the assistant said, or about what the person did, has or wants.
ASKS_ASSISTANT = re.compile(
    r"(?<!can )(?<!could )(?<!would )(?<!will )\byou (?:had |have |also |just |previously |earlier )?"
    r"(?:said|say|mentioned|mention|recommended|recommend|suggested|suggest|told|tell|explained|explain|gave|give"
    r"|provided|provide|listed|list|advised|advise|described|describe|proposed|propose|shared|share|wrote|write|made"
    r"|came up|called|outlined|taught|created|used)\b|\bremind me\b"
    r"|\b(?:our|the) (?:previous|last|earlier) (?:chat|conversation|discussion|talk)\b"
    r"|\byour (?:last |previous |earlier )?(?:recommendation|suggestion|advice|answer|reply|response|list|explanation"
    r"|plan|example)s?\b",
    re.IGNORECASE,
)
ASKS_ABOUT_ME = re.compile(r"\b(?:i|my|me|mine|i'm|i've|myself)\b", re.IGNORECASE)
# Questions that need a whole topic over time instead of the most similar messages, and the words that ask for it.
WANTS_COVERAGE = re.compile(
    r"\b(?:in (?:what|which) order|the order (?:in which|that|of)|order of|chronolog\w*|timeline of|sequence of"
    r"|summar(?:y|ies|i[sz]e|i[sz]ed|i[sz]ing)|overview|recap"
    r"|list (?:all|every)|all the (?:times|things|places|topics|rules)|every time"
    r"|how often|how many times|everything (?:i|we|you|about)"
    r"|(?:which|what) (?:rules|instructions|preferences|guidelines) (?:did|have|do))\b",
    re.IGNORECASE,
)
COVERAGE_WORDS = frozenset(
    _words("""
        across all aspect aspects bring brought chat chats chronological chronologically clear complete
        comprehensive concept concepts conversation conversations cover covered detailed develop developed
        development different discuss discussed during every everything evolve evolved far give including item
        items key learned list mention mentioned often one two three four five six seven eight nine ten only
        order overview over progress progressed recap related sequence step steps summaries summarise summarised
        summarize summarized summary things through throughout time timeline times topic topics up various walk
    """)
)
TOLD_BY_ME = re.compile(
    r"\bi(?:'ve| have|'d| had)? (?:first |then |also )?(?:bring|brought|mention\w*|said|told|asked?|raised?|shared?"
    r"|gave|give|given|introduced?|described?|set)\b|\bdid i \w+",
    re.IGNORECASE,
)
# A wish for help now, in the first or second person, and not a question about the past.
WANTS_HELP = re.compile(
    r"^(?!.*\b(?:did|was|were|had|said|told|mentioned|previous(?:ly)?|earlier|ago|have (?:i|we|you)|i've|we've)\b)"
    r".*\b(?:i|my|me|you|we|our)\b|^(?:what|how|which) (?:are|is|do|can|should)\b",
    re.IGNORECASE | re.DOTALL,
)
# What a person prefers; and a standing rule, which holds for every question about its topic.
STATES_PREFERENCE = re.compile(
    r"\b(?:always|never|i prefer|i'd prefer|i would prefer|please (?:don't|do not|avoid|make sure)"
    r"|make sure (?:to|that|you)|i (?:want|need|like) you to|i'd like you to)\b",
    re.IGNORECASE,
)
STATES_RULE = re.compile(
    r"(?:^|[.!?\n]\s*)(?:please )?(?:always|never) (?!been\b|had\b|thought\b)\w+"
    r"|\bfrom now on\b|\b(?:when|whenever|if) i ask\b",
    re.IGNORECASE,
)
RULE_SIGNS = ("always", "never", "from now on", "i ask")  # one of them is in every text that states a rule
RULE_TOPIC = re.compile(r"\b(?:when|whenever|if) i ask (?:you )?(?:about |for )?([^.!?\n]+)", re.IGNORECASE)
RULE_WORDS = ("always", "never")
# The person tells what they did or what happened to them, as in "by the way, I just got my first bike".
TELLS_WHAT_HAPPENED = re.compile(
    r"\bI(?:'ve| have| had| just| recently| finally| also| actually)*\s+"
    r"(?:(?!need|thought|wondered|wanted|hoped|mentioned)\w+ed|got|went|bought|did|had|made|took|saw|met|came|spent"
    r"|found|ran|read|wrote|gave|left|been|was|set)\b|\bmy (?:\w+ ){0,2}(?:was|were|had|came|got)\b"
)
ASKS_WHEN = re.compile(r"\bwhen\b|\b(what|which) (date|day|week|month|year|time)\b|\bhow long\b", re.IGNORECASE)
ASKS_HOW_MANY = re.compile(r"\bhow (many|much|often|old)\b", re.IGNORECASE)
ASKS_NAME = re.compile(
    r"\bwho(?:se|m)?\b|\bwhere\b|\b(?:which|what)(?: \w+)? (?:(?:countr|cit|compan|universit)(?:y|ie)|state|town|place"
    r"|island|location|school|restaurant|shop|store|book|movie|film|song|band|artist|author|brand|team|game|name)s?\b",
    re.IGNORECASE,
)
NAME = re.compile(r"(?<=[a-z,;'\u2019)] )[A-Z][a-zA-Z]+")  # capitals inside a sentence
FIRST_PERSON = re.compile(r"\b(?:I|[Mm]y|[Mm]e|[Ww]e|[Oo]ur)\b")
# A turn that takes up the answer before it; and numbers and names, of which a turn that opens a matter has more.
TAKES_UP = re.compile(
    r"\W*(?:thanks|thank you|got it|sounds|great|okay|ok|sure|perfect|these|this|that|yes|yeah|absolutely|hmm|i see"
    r"|i'll|cool|awesome)\b",
    re.IGNORECASE,
)
SPECIFIC = re.compile(r"\d|(?<=[a-z,] )[A-Z][a-z]+")
# Stems that tell a time or a number.
WHEN_STEMS = frozenset(
    _words("""
        yesterdai todai tonight tomorrow last next ago weekend week month year mondai tuesdai wednesdai thursdai fridai
        saturdai sundai januari februari march april mai june juli august septemb octob novemb decemb sinc recent
    """)
)
IS_DATE = re.compile(r"\d{4}|\d+(?:st|nd|rd|th)")
NUMBER_STEMS = frozenset(
    _words("two three four five six seven eight nine ten dozen hundr thousand onc twice sever few coupl")
)
