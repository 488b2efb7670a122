"""The words by which facts are read: who is named, what is claimed, and which values exclude each other.

None of it is about a topic of somebody's memory; these are the small change of a language.
"""

from __future__ import annotations


def _split(text: str) -> list[str]:
    return text.split()


# Words that start sentences with a capital and are no names.
STARTERS = frozenset(
    _split("""
        a about after all also always although an and another any are as at avoid avoids be because before both but by
        can check currently default deploy deploys did disabled do does don't during each either enabled every
        everyone everything few first for found from had has hate hates have he her here his how however i i'd i'll
        i'm i've if in instead into is it it's its keep keeps last let let's like likes love loves make many maybe
        may more most must my need needs never new next no nobody none not note nothing now of often on once one only
        or our over people please prefer prefers remember run runs said same see she should since so some somebody
        someone something still than thanks that that's the their them then there there's these they they're this
        those though to today tomorrow use user users uses use usually wants was we we'll we're we've were what what's
        when whenever where which while who whose why will with without work works would yes yesterday yet you your
        you're
    """)
)
DATES = frozenset(
    _split("""
        monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
        september october november december jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun
    """)
)
# Small words that may stand inside a name.
LINKS = frozenset(_split("of de da di del la le van von der den al bin ibn du y"))

NEGATIONS = frozenset(_split("not never no without neither nor cannot hardly"))
DETERMINERS = frozenset(_split("the a an my our your his her their its this that these those all some any each every"))
PREPOSITIONS = frozenset(_split("in at on from for with by of to as under near into onto via per"))
ADVERBS = frozenset(
    _split("""
        always usually also really now currently still just strongly mostly often generally typically normally actually
        definitely only already recently again much very both longer does do did has have had will would can could
        should must may might been be being is are was were get gets got
    """)
)
COPULAS = frozenset(_split("is are was were be been equals = becomes became remains"))
PRONOUNS = frozenset(_split("i me user users we us"))
PAST = frozenset(_split("formerly previously once earlier ago"))
ENDS_A_VALUE = frozenset(
    _split("because since when while after before so but although unless until if whereas over than which who where")
)

# What is said of somebody: canonical name -> (how many values it can have at once, base forms of its verbs).
ONE, OPEN, LOOSE, MANY = "one", "open", "loose", "many"
RELATIONS: dict[str, tuple[str, str]] = {
    "live": (ONE, "live reside dwell move relocate base locate"),
    "work at": (ONE, "employ join"),
    "prefer": (ONE, "prefer favour favor"),
    "use": (OPEN, "use utilise utilize adopt employs run deploy host store write build target"),
    "name": (ONE, "call name title"),
    "schedule": (ONE, "schedule plan happen occur start begin end finish open close"),
    "cost": (ONE, "cost charge"),
    "lead": (MANY, "lead manage own head maintain"),
    "report": (ONE, "report answer"),
    "listen": (ONE, "listen bind expose"),
    "set": (ONE, "set configure default point"),
    "marry": (ONE, "marry"),
    "bear": (ONE, "born"),
    "study": (ONE, "study graduate major"),
    "weigh": (ONE, "weigh measure"),
    "expire": (ONE, "expire due"),
    "drive": (OPEN, "drive wear drink eat take"),
    "like": (MANY, "like love enjoy adore appreciate"),
    "know": (MANY, "know speak understand learn teach meet see watch read visit play buy try want need help hear"),
    "have": (MANY, "have contain include support mention hold collect keep"),
    "allow": (MANY, "allow permit accept"),
    "enable": (MANY, "enable activate"),
    "require": (MANY, "require expect"),
    "work": (MANY, "work collaborate"),
}
# Verbs that deny another one.
OPPOSITES: dict[str, str] = {
    "like": "dislike hate detest loathe",
    "use": "avoid refuse drop abandon",
    "allow": "forbid disallow prohibit ban block reject deny",
    "enable": "disable deactivate",
    "have": "lack miss",
}
IRREGULAR = {
    "wrote": "write", "written": "write", "built": "build", "ran": "run", "running": "run", "began": "begin",
    "begun": "begin", "led": "lead", "held": "hold", "kept": "keep", "knew": "know", "known": "know", "spoke": "speak",
    "spoken": "speak", "met": "meet", "saw": "see", "seen": "see", "read": "read", "bought": "buy", "drove": "drive",
    "driven": "drive", "wore": "wear", "worn": "wear", "drank": "drink", "ate": "eat", "eaten": "eat", "took": "take",
    "taken": "take", "set": "set", "has": "have", "had": "have", "forbade": "forbid", "forbidden": "forbid",
    "banned": "ban", "dropped": "drop", "preferred": "prefer", "preferring": "prefer", "planned": "plan",
    "understood": "understand", "taught": "teach", "heard": "hear", "married": "marry", "denied": "deny",
    "studied": "study", "based": "base", "due": "due", "born": "born",
}  # fmt: skip
# A preposition can make another relation of the same verb.
WITH_PREPOSITION = {
    ("work", "at"): ("work at", ONE), ("work", "for"): ("work at", ONE), ("work", "as"): ("role", ONE),
    ("work", "in"): ("work in", ONE), ("work", "from"): ("work from", ONE), ("is", "in"): ("live", ONE),
    ("is", "at"): ("is at", ONE), ("is", "on"): ("is on", ONE), ("is", "from"): ("is from", ONE),
    ("use", "on"): ("runs on", ONE), ("use", "to"): ("deploys to", ONE), ("use", "in"): ("is in", ONE),
    ("is", "for"): ("is for", OPEN), ("is", "with"): ("is with", OPEN), ("is", "by"): ("is by", ONE),
    ("lead", "by"): ("led by", ONE),
}  # fmt: skip

# Values of one kind exclude each other: one thing is not two of them at once.
KINDS = (
    "on off", "enabled disabled", "true false", "yes no", "light dark", "open closed", "public private",
    "active inactive", "online offline", "hot cold", "big small large tiny", "fast slow", "married single divorced",
    "tabs spaces tab space", "synchronous asynchronous", "allowed forbidden", "required optional mandatory",
    "broken working", "up down", "left right", "early late", "morning afternoon evening night",
    "formal informal casual",
    "verbose concise brief detailed", "manual automatic", "stable unstable", "safe unsafe", "deprecated supported",
    "passed failed passing failing", "vegetarian vegan carnivore", "alive dead", "full empty", "tea coffee",
    "monday tuesday wednesday thursday friday saturday sunday",
    "january february march april june july august september october november december",
    "postgresql postgres mysql mariadb sqlite mongodb oracle cassandra dynamodb", "rest graphql grpc soap",
    "aws gcp azure heroku", "vim emacs neovim vscode nano", "linux macos windows", "npm yarn pnpm bun",
    "python java rust go ruby typescript javascript kotlin swift", "pytest unittest", "git mercurial svn",
    "docker podman kubernetes",
    "red green blue yellow orange purple black white", "daily weekly monthly yearly hourly",
    "喜欢 讨厌", "开启 关闭", "早上 下午 晚上", "启用 禁用", "公开 私有", "素食 吃肉",
    "星期一 星期二 星期三 星期四 星期五 星期六 星期日", "周一 周二 周三 周四 周五 周六 周日",
)  # fmt: skip
KIND_OF: dict[str, frozenset[int]] = {}
for _number, _kind in enumerate(KINDS):
    for _word in _kind.split():
        KIND_OF[_word] = KIND_OF.get(_word, frozenset()) | {_number}

# Chinese: what stands between names. The longest match wins; a value is the relation it states, "" for none.
HAN_VERBS: dict[str, str] = {
    "居住在": "live", "住在": "live", "搬到": "live", "搬去": "live", "位于": "live", "来自": "from", "出生于": "bear",
    "就职于": "work at", "任职于": "work at", "加入": "work at", "更喜欢": "prefer", "偏好": "prefer", "偏爱": "prefer",
    "喜欢": "like", "喜爱": "like", "热爱": "like", "讨厌": "!like", "使用": "use", "采用": "use", "避免": "!use",
    "运行在": "runs on", "部署在": "runs on", "监听": "listen", "负责": "lead", "管理": "lead", "领导": "lead",
    "认识": "know", "会说": "know", "学习": "know", "拥有": "have", "包含": "have", "支持": "have", "需要": "require",
    "允许": "allow", "禁止": "!allow", "启用": "enable", "禁用": "!enable", "叫做": "name", "名叫": "name",
    "叫": "name",
    "是": "is", "等于": "is", "改为": "is", "设为": "set", "在": "at", "有": "have", "用": "use",
}  # fmt: skip
HAN_ONE = frozenset({"live", "from", "bear", "work at", "prefer", "runs on", "listen", "name", "is", "set", "at"})
HAN_NEGATIONS = ("不再", "从不", "没有", "不", "没", "未", "别")
HAN_GLUE = tuple(
    sorted(
        _split("""
            的 和 与 跟 了 吗 呢 吧 也 都 很 非常 经常 总是 通常 一直 已经 正在 现在 目前 每天 今天 昨天 明天 因为
            所以 但是 如果 然后 以及 一个 一只 一名 一位 这个 那个 他们 她们 我们 你们 他 她 它 我 你 您 工作 上班
            生活 项目 团队 一起 共同 参加 开发 编写 可以 应该 必须 是否 什么
        """),
        key=len,
        reverse=True,
    )
)
TITLES = frozenset(_split("Dr Mr Mrs Ms Prof St Sir"))
HAN_SUFFIXES = ("先生", "女士", "小姐", "老师", "教授", "医生", "经理", "同学")
