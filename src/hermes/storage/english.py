"""What English does that a stemmer cannot undo, and what its questions are made of.

None of this is about a topic: forms of irregular words, words that only ask or frame a question, and words that tell
a time or a number.
"""

from __future__ import annotations

import re


def _words(text: str) -> list[str]:
    return text.split()


# Words that ask or glue; they are dropped when something else remains.
STOP_WORDS = frozenset(
    _words("""
        a about am an and any are as at be been being but by can could d did do does doing don for from had has have
        having he her hers him his how i if in into is it its just ll m may me might mine my no not of on or our ours
        re s shall she should so some such t than that the their theirs them then there these they this those to too
        us ve was we were what when where which who whom whose why will with would you your yours ever say said tell
        please
    """)
)
# Words that frame a question about something else: they count, but little.
FRAME_WORDS = frozenset(
    _words("""
        many much more most often long far ago day days week weeks month months year years time times date dates total
        number order first earliest latest before after during between recently lately past current currently type
        types kind kinds sort thing things way ways different both mention mentioned also like likely recommend
        recommendation recommendations suggest suggestion suggestions think thinking advice tips help
    """)
)
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
)
FORMS: dict[str, tuple[str, ...]] = {
    word: tuple(other for other in family.split() if other != word)
    for family in _FAMILIES.split("|")
    for word in family.split()
}
ASKS_WHEN = re.compile(r"\bwhen\b|\b(what|which) (date|day|week|month|year|time)\b|\bhow long\b", re.IGNORECASE)
ASKS_HOW_MANY = re.compile(r"\bhow (many|much|often|old)\b", re.IGNORECASE)
TELLS_WHEN = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|last|next|ago|weekend|week|month|year|monday|tuesday|wednesday|thursday|friday"
    r"|saturday|sunday|january|february|march|april|may|june|july|august|september|october|november|december|since"
    r"|recently|\d{4}|\d+(st|nd|rd|th))\b",
    re.IGNORECASE,
)
TELLS_HOW_MANY = re.compile(
    r"\b(\d[\d,.]*|one|two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|thousand|once|twice|several|few"
    r"|couple)\b",
    re.IGNORECASE,
)
