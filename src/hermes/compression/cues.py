"""Words that mark a sentence as a rule, a decision or an unfinished matter, in the languages people write in.

Words of scripts with spaces are compared with whole words; the others are looked for anywhere. A sentence in a
language that is not listed is still kept by what it holds (identifiers, numbers) and by the pointers.
"""

from __future__ import annotations

import re
from itertools import chain

# Full-width and other punctuation is spelled by name or code, so that nobody mistakes it for its ASCII twin.
QUESTION_MARKS = ("?", "\N{FULLWIDTH QUESTION MARK}", "\N{ARABIC QUESTION MARK}")
# One class of signs first, because the search for one skips fast; some end a sentence only before a blank.
FULL_STOPS = "\u3002\uff01\uff1f"  # end it in any case
SENTENCE_MARKS = re.compile(f"[.!?\u061f{FULL_STOPS}\\n](?:(?<![.!?\u061f])|(?=\\s|$))")
# Punctuation around a word: ASCII, typographic quotes and dots, East Asian.
TRIMMED = (
    ".,;:!?()[]{}<>\"'`*|=\u201c\u201d\u2018\u2019\u00ab\u00bb\u2026"
    "\u3001\u3002\uff0c\uff1b\uff1a\uff01\uff1f\uff08\uff09\u300c\u300d\u300e\u300f\u3010\u3011\u300a\u300b"
)

_WORDS = {
    "constraint": (
        "must never always only cannot can't don't dont shouldn't mustn't forbidden required require requires prefer "
        "avoid deadline limit budget constraint important ensure without "
        "nunca siempre debe deben solo prohibido evita prefiero obligatorio "
        "jamais toujours doit doivent interdit éviter préfère obligatoire "
        "nie niemals immer muss müssen darf dürfen verboten nur bevorzugt pflicht "
        "sempre mai deve devono vietato evitare "
        "никогда всегда должен должна должны нельзя только запрещено обязательно "
        "يجب دائما أبدا ممنوع فقط "
        "हमेशा कभी ज़रूरी केवल "
        "반드시 절대 항상 금지 필수"
    ),
    "decision": (
        "decided decision chose chosen agreed settled concluded picked instead rejected approved "
        "decidimos decidido elegimos acordamos "
        "décidé choisi convenu retenu "
        "entschieden beschlossen gewählt vereinbart "
        "deciso scelto concordato "
        "решили решено выбрали договорились "
        "قررنا اخترنا اتفقنا "
        "तय फैसला चुना "
        "결정 선택 합의"
    ),
    "open": (
        "todo fixme pending blocked unresolved remaining unclear "
        "pendiente bloqueado bloqué offen blockiert sospeso осталось открыто معلق बाकी 보류"
    ),
}
_PIECES = {
    "constraint": (
        "必须 必須 不要 不能 不得 禁止 只能 务必 務必 绝不 一定要 总是 必ず しないで 絶対 のみ "
        "ないでください 절대 반드시 하지 마 ต้อง ห้าม เสมอ"
    ),
    "decision": "决定 決定 选择了 選擇 同意 采用 採用 改用 定为 に決め 採用 にします 결정 ตัดสินใจ ตกลง",
    "open": "待办 待辦 未完成 尚未 还没 還沒 未解決 保留 残り 보류 ค้าง",
}


def _forms(words: str) -> frozenset[str]:
    plain = words.split()
    return frozenset(plain) | {word.capitalize() for word in plain} | {word.upper() for word in plain}


WORDS = {kind: _forms(words) for kind, words in _WORDS.items()}
ANY_WORD = frozenset().union(*WORDS.values())
PIECES = {kind: tuple(dict.fromkeys(pieces.split())) for kind, pieces in _PIECES.items()}
# Where none of this is, a text in another script is read like any: no piece, no question, no end without a blank.
FOREIGN_CUE = re.compile("|".join((*chain.from_iterable(PIECES.values()), *QUESTION_MARKS[1:], *FULL_STOPS)))
