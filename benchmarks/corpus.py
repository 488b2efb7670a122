"""A deterministic history of any size, shaped like the work of an agent: for measuring speed, not quality.

Words follow Zipf's law (s = 1.05 over 60,000 of them) with identifiers that keep growing, tool calls with JSON
arguments, code and log output, one message in seven with Chinese, lognormal session lengths and compression chains.
The same seed and size give the same bytes everywhere.
"""

from __future__ import annotations

import bisect
import itertools
import json
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = 60_000
SKEW = 1.05
CHINESE_SHARE = 0.147
ALONE = 0.9  # of the conversations are one session; the others were compressed once or more
_SYLLABLES = re.findall(
    r"\w+", "ba co di fe gu ha jo ki lu me no pa qui ra se ti vo wa xe zu bra cle dro fli gra ple sta tri"
)
_TOOLS = ("read_file", "run_command", "search_code", "write_file", "web_fetch", "list_directory")
_CHINESE = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后"
    "多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本去把性好应开它合"
    "还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比或但质气第向道命此变条只"
    "没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料象员革位入常文总次品式活设及管特件长求老头基资边"
    "流路级少图山统接知较将组见计别她手角期根论运农指几九区强放决西被干做必战先回则任取据处队南给色光门即保治北造"
    "百规热领七海口东导器压志世金增争济阶油思术极交受联什认六共权收证改清己美再采转更单风切打白教速花带安场身车例"
    "真务具万每目至达走积示议声报斗完类八离华名确才科张信马节话米整空元况今集温传土许步群广石记需段研界拉林律叫且"
    "究观越织装影算低持音众书布复容儿须际商非验连断深难近矿千周委素技备半办青省列习响约支般史感劳便团往酸历市克何"
    "除消构府称太准精值号率族维划选标写存候毛亲快效斯院查江型眼王按格养易置派层片始却专状育厂京识适属圆包火住调满"
    "县局照参红细引听该铁价严"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One session to create: its id, the one it continues, and its messages."""

    id: str
    parent: str | None
    source: str
    title: str | None
    started_at: float
    messages: list[dict[str, Any]]


class Corpus:
    def __init__(self, seed: int = 42) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.words = _vocabulary()
        weights = itertools.accumulate(1 / rank**SKEW for rank in range(1, WORDS + 1))
        self._reach = list(weights)
        self._identifiers = 0

    def sessions(self, messages: int) -> Iterator[Planned]:
        """Sessions until they hold exactly so many messages."""
        left, number, started = messages, 0, 1_600_000_000.0
        while left > 0:
            links = 1 if self._random.random() < ALONE else self._random.randint(2, 5)
            parent = None
            for _ in range(links):
                if left <= 0:
                    break
                length = min(left, max(2, int(self._random.lognormvariate(3.0, 1.1))))
                left -= length
                started += self._random.expovariate(1 / 3600)
                name = f"bench-{number:07d}"
                yield Planned(
                    id=name,
                    parent=parent,
                    source=self._random.choices(("cli", "telegram", "cron"), (8, 3, 1))[0],
                    title=" ".join(self.draw(3)).title() if self._random.random() < 0.5 else None,  # noqa: PLR2004
                    started_at=started,
                    messages=list(self._messages(length, started)),
                )
                parent, number = name, number + 1

    def draw(self, count: int, *, beyond: int = 0) -> list[str]:
        """Words as often as Zipf says; `beyond` leaves the commonest out."""
        top = self._reach[-1]
        low = self._reach[beyond - 1] if beyond else 0.0
        return [self.words[bisect.bisect_left(self._reach, self._random.uniform(low, top))] for _ in range(count)]

    def chinese(self, count: int) -> str:
        ranks = [int(len(_CHINESE) * self._random.random() ** 2) for _ in range(count)]
        return "".join(_CHINESE[rank] for rank in ranks)

    def _messages(self, count: int, started: float) -> Iterator[dict[str, Any]]:
        made = 0
        while made < count:
            turn = [self._prose("user", 14, 60)]
            for _ in range(self._random.choices((0, 1, 2), (9, 7, 3))[0]):
                turn += self._tool_round()
            turn.append(self._prose("assistant", 40, 160))
            for message in turn[: count - made]:
                yield message | {"timestamp": started + made}
                made += 1

    def _prose(self, role: str, fewest: int, most: int) -> dict[str, Any]:
        parts = self.draw(self._random.randint(fewest, most))
        for _ in range(self._random.randint(0, 2)):
            parts.insert(self._random.randrange(len(parts)), self._identifier())
        if self._random.random() < CHINESE_SHARE * 1.75:  # tool rows have none, so prose has more
            parts.insert(self._random.randrange(len(parts)), self.chinese(self._random.randint(4, 30)))
        text = " ".join(parts)
        return {"role": role, "content": text[:1].upper() + text[1:] + ("?" if role == "user" else ".")}

    def _identifier(self) -> str:
        if self._random.random() < 0.15:  # noqa: PLR2004 - the rest come back to older names
            self._identifiers += 1
        number = int(self._identifiers * self._random.random() ** 0.5)
        first, second = self.words[number * 7 % 5000 + 200], self.words[number * 13 % 9000 + 300]
        return (f"{first}_{second}_{number}", f"{first}{second.title()}{number}", f"{first}.{second}.py")[number % 3]

    def _tool_round(self) -> list[dict[str, Any]]:
        tool = self._random.choice(_TOOLS)
        call = f"call_{self._random.getrandbits(48):012x}"
        arguments = {"path": f"src/{self._identifier()}", "query": " ".join(self.draw(4))}
        function = {"name": tool, "arguments": json.dumps(arguments)}
        line = (self._log_line, self._code_line)
        lines = [self._random.choice(line)() for _ in range(self._random.randint(4, 20))]
        return [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call, "name": tool, "content": "\n".join(lines)},
        ]

    def _log_line(self) -> str:
        level = self._random.choice(("INFO", "WARN", "ERROR"))
        clock = f"{self._random.randint(10, 23)}:{self._random.randint(10, 59)}"
        return f"{clock} {level} {self._identifier()} {' '.join(self.draw(5))}"

    def _code_line(self) -> str:
        return f"    {self._identifier()} = {self.draw(1)[0]}({self._identifier()}, {self._random.randint(0, 999)})"


def _vocabulary() -> list[str]:
    """Pronounceable words without repeats, short ones first as in any language."""
    words: dict[str, None] = {}
    for size in itertools.count(1):
        for parts in itertools.product(_SYLLABLES, repeat=size):
            words.setdefault("".join(parts), None)
            if len(words) >= WORDS:
                return _shuffled(list(words))
    raise AssertionError("unreachable")


def _shuffled(words: list[str]) -> list[str]:
    # Short words stay common without the alphabet deciding which.
    mixer = random.Random(7)  # noqa: S311 - reproducible, not secret
    return [word for _, word in sorted((len(word) + mixer.random() * 4, word) for word in words)]
