"""The formats of secrets: vendor prefixes, key blocks, check digits, and the words that give a secret away.

Each format names literals of which one must stand in the text before its pattern is compiled or run; that keeps a
plain sentence cheap. A pattern is a fixed beginning followed by runs of one character class, so no text can make it
backtrack. The group `s`, where there is one, is the secret itself; otherwise the whole match is.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator


class Pattern:
    __slots__ = ("_compiled", "_ignores_case", "_text")

    def __init__(self, text: str, *, ignores_case: bool = False) -> None:
        self._text = text
        self._ignores_case = ignores_case
        self._compiled: re.Pattern[str] | None = None

    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            import re

            self._compiled = re.compile(self._text, re.IGNORECASE if self._ignores_case else 0)
        return self._compiled

    def search(self, text: str, start: int = 0, end: int | None = None) -> re.Match[str] | None:
        return self.compiled().search(text, start, len(text) if end is None else end)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self.compiled().match(text, start)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self.compiled().fullmatch(text)

    def finditer(self, text: str, start: int = 0, end: int | None = None) -> Iterator[re.Match[str]]:
        return self.compiled().finditer(text, start, len(text) if end is None else end)


# Keys that are plainly examples: documentation and settings are full of them, and they harm nobody.

_FEWEST_CHARACTERS = 3
_EXAMPLE = Pattern(
    r"\.\.\.|\u2026|\*{3}|\$\{|\{\{|\A[<%{\[(]|\A\$(?!\w{1,10}\$)|\A(?i:passw(?:or)?d|pass|pwd|secret|token|key|pw|none|null)\Z"
    r"|(?i:x{5}|example|your[_-]|change_?me|placeholder|redacted|dummy|1234567890abcdef)"
)


def is_example(text: str) -> bool:
    """Whether a text with the shape of a key is an example, a reference or a masked value."""
    return _EXAMPLE.search(text) is not None or len(set(text.lower())) <= min(_FEWEST_CHARACTERS, len(text) // 4)


# Card and account numbers, recognised by their check digits.

_CARD = Pattern(r"(?<![\w.+/=-])(?:[3-6]\d{3}|2[2-7]\d\d)(?:[ -]?\d){9,15}(?![\w./=]|-\d)")
_IBAN = Pattern(r"(?<![A-Za-z0-9])[A-Z]{2}\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
# Sixteen digits in a row have a right check digit one time in ten; these words say what they are instead.
_OTHER_NUMBER = Pattern(
    r"(?:order|invoice|track(?:ing)?|ticket|shipment|parcel|phone|tel|fax|isbn|ean|gtin|imei|epoch|timestamp|build|serial"
    r"|snowflake|message|channel|user|id|ids|number|no|nr)\W{0,4}\Z",
    ignores_case=True,
)
_CARD_WORD = Pattern(r"card|visa|master|amex|credit|debit|pan\b|payment", ignores_case=True)
_LENGTHS = {"34": (15,), "37": (15,), "36": (14,), "38": (14,), "30": (14,)}
_USUAL_LENGTHS = (16, 19)
_IBAN_LENGTHS = range(15, 35)


def find_card_numbers(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _CARD.finditer(text):
        digits = match.group().replace(" ", "").replace("-", "")
        if not _is_card(digits) or len(set(digits)) == 1:
            continue
        before = text[max(0, match.start() - 40) : match.start()]
        if _OTHER_NUMBER.search(before) and not _CARD_WORD.search(before):
            continue
        yield "card number", match.start(), match.end()


def find_ibans(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _IBAN.finditer(text):
        account = match.group().replace(" ", "")
        turned = account[4:] + account[:4]
        if len(account) in _IBAN_LENGTHS and int("".join(str(int(character, 36)) for character in turned)) % 97 == 1:
            yield "bank account number", match.start(), match.end()


def _is_card(digits: str) -> bool:
    if len(digits) not in _LENGTHS.get(digits[:2], _USUAL_LENGTHS):
        return False
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    return (sum(map(int, digits[-1::-2])) + sum(sum(divmod(number, 10)) for number in doubled)) % 10 == 0


_HEX = "[0-9a-fA-F]"
_WORD = "[A-Za-z0-9]"
_URL = "[A-Za-z0-9_-]"
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"


def _prefixed(kind: str, prefixes: str, body: str) -> tuple[str, tuple[str, ...], str]:
    """A token that starts with one of the prefixes, which are separated by blanks and hold no pattern syntax."""
    hints = tuple(prefixes.split())
    either = "|".join(prefix.replace(".", r"\.").replace("$", r"\$").replace("+", r"\+") for prefix in hints)
    return kind, hints, f"(?<![A-Za-z0-9])(?:{either}){body}"


# Found by their own shape: each holds a run of 16 or more characters. (kind, literals, pattern)
TOKENS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    _prefixed("wallet key", "xprv yprv zprv tprv", f"{_WORD}{{80,}}"),
    _prefixed("age key", "AGE-SECRET-KEY-1 AGE-SECRET-KEY-PQ-1", "[A-Z0-9]{40,}"),
    ("web token", ("eyJ",), rf"(?<![A-Za-z0-9])eyJ{_URL}{{8,}}\.(?:eyJ)?{_URL}{{8,}}\.{_URL}{{0,1000}}"),
    # Clouds
    _prefixed("aws access key", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _prefixed("aws bedrock key", "ABSK bedrock-api-key-", "[A-Za-z0-9+/=]{60,}"),
    _prefixed("google api key", "AIza", f"{_URL}{{30,}}"),
    _prefixed("google oauth token", "ya29. 1//0", f"{_URL}{{20,}}"),
    _prefixed("google client secret", "GOCSPX-", f"{_URL}{{20,}}"),
    _prefixed("firebase server key", "AAAA", f"{_URL}{{7}}:{_URL}{{100,}}"),
    (
        "azure key",
        ("AccountKey=", "SharedAccessKey=", "accountkey="),
        r"(?:Account|SharedAccess)Key=(?P<s>[A-Za-z0-9+/=]{32,})",
    ),
    (
        "azure key",
        ("JQQJ99", "AZDO", "AzFu", "+AMC", "+ABa", "+ASt", "AzSe", "AzCa"),
        r"(?<![A-Za-z0-9])[A-Za-z0-9+/_-]{30,90}(?:JQQJ99|AZDO|AzFu|\+AMC|\+ABa|\+ASt|AzSe|AzCa)[A-Za-z0-9+/_=-]{4,60}",
    ),
    ("azure client secret", ("Q~",), r"(?<![A-Za-z0-9~._-])[A-Za-z0-9~._-]{3}\dQ~[A-Za-z0-9~._-]{30,40}"),
    (
        "signed address",
        ("sig=", "Signature="),
        r"[?&;](?:sig|X-Amz-Signature|X-Goog-Signature|Signature)=(?P<s>[A-Za-z0-9%+/=_~-]{20,})",
    ),
    ("digitalocean token", ("do",), rf"(?<![A-Za-z0-9])do[opr]_v1_{_HEX}{{40,}}"),
    _prefixed("heroku key", "HRKU-", f"{_URL}{{30,}}"),
    ("fly token", ("FlyV1", "fm1_", "fm2_", "fo1_"), r"(?<![A-Za-z0-9])f(?:m[12]|o1)[ar]?_[A-Za-z0-9+/=_-]{30,}"),
    _prefixed("netlify token", "nfp_ nfc_ nfo_ nfu_", f"{_WORD}{{30,}}"),
    _prefixed("vercel token", "vcp_ vci_ vca_ vcr_ vck_ vercel_blob_rw_", f"{_URL}{{20,}}"),
    _prefixed("cloudflare key", "v1.0-", f"{_HEX}{{24}}-{_HEX}{{64,}}"),
    _prefixed("cloudflare token", "cfut_ cfat_ cfk_", f"{_URL}{{30,}}"),
    _prefixed("alibaba access key", "LTAI", f"{_WORD}{{16,24}}(?![A-Za-z0-9])"),
    _prefixed("tencent access key", "AKID", f"{_WORD}{{32}}(?![A-Za-z0-9])"),
    _prefixed("ibm cloud key", "ApiKey-", f"{_HEX}{{8}}-{_URL}{{27,}}"),
    # Code hosting and packages
    _prefixed("github token", "ghp_ gho_ ghu_ ghs_ ghr_", f"{_WORD}{{20,}}"),
    _prefixed("github token", "github_pat_", r"\w{20,}"),
    _prefixed(
        "gitlab token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glsoat- glimt- glagent- gloas- glffct- glwt-",
        r"[\w.-]{16,}",
    ),
    _prefixed("gitlab runner token", "GR1348941", f"{_URL}{{16,}}"),
    _prefixed("bitbucket token", "ATBB", f"{_WORD}{{24,}}"),
    _prefixed("atlassian token", "ATATT3 ATCTT3 ATSTT3", r"[\w=-]{20,}"),
    _prefixed("npm token", "npm_", f"{_WORD}{{30,}}"),
    _prefixed("pypi token", "pypi-", f"{_URL}{{40,}}"),
    _prefixed("rubygems key", "rubygems_", f"{_HEX}{{40,}}"),
    _prefixed("docker token", "dckr_pat_ dckr_oat_", f"{_URL}{{20,}}"),
    _prefixed("crates token", "cio", f"{_WORD}{{32}}(?![A-Za-z0-9])"),
    _prefixed("nuget key", "oy2", "[a-z0-9]{43}(?![A-Za-z0-9])"),
    _prefixed("clojars token", "CLOJARS_", f"{_WORD}{{40,}}"),
    _prefixed("artifactory key", "AKCp", f"{_WORD}{{40,}}"),
    _prefixed("artifactory token", "cmVmdGtuO", f"{_WORD}{{40,}}"),
    _prefixed("sonar token", "sqp_ squ_ sqa_", f"{_HEX}{{32,}}"),
    _prefixed("build token", "bkua_ CCIPAT_ CCIPRJ_ sgp_ pul- ico- tkn_", f"{_URL}{{30,}}"),
    # Models
    _prefixed("anthropic key", "sk-ant-", f"{_URL}{{16,}}"),
    _prefixed("openrouter key", "sk-or-", f"{_URL}{{20,}}"),
    _prefixed("openai key", "sk-proj- sk-svcacct- sk-admin- sk-None-", f"{_URL}{{20,}}"),
    ("openai key", ("sk-",), r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{20,}"),
    _prefixed("groq key", "gsk_", f"{_WORD}{{20,}}"),
    _prefixed("xai key", "xai-", f"{_WORD}{{30,}}"),
    _prefixed("replicate token", "r8_", f"{_WORD}{{30,}}"),
    _prefixed("perplexity key", "pplx-", f"{_WORD}{{30,}}"),
    _prefixed("hugging face token", "hf_ api_org_", f"{_WORD}{{28,}}"),
    _prefixed(
        "model key",
        "fw_ tgp_v1_ nvapi- csk- jina_ tvly- lsv2_pt_ lsv2_sk_ e2b_ esecret_ BSA fc- pcsk_ co_",
        f"(?={_URL}{{0,40}}[0-9]){_URL}{{24,}}",
    ),
    ("elevenlabs key", ("sk_",), rf"(?<![A-Za-z0-9])sk_{_HEX}{{40,}}"),
    # Payment
    ("stripe key", ("_live_", "_test_"), rf"(?<![A-Za-z0-9])[sr]k_(?:live|test)_{_WORD}{{10,}}"),
    _prefixed("webhook secret", "whsec_", "[A-Za-z0-9+/=]{20,}"),
    _prefixed("square token", "sq0atp- sq0csp- sq0idp-", f"{_URL}{{20,}}"),
    _prefixed("square token", "EAAA", f"{_URL}{{40,}}"),
    _prefixed("shopify token", "shpat_ shpca_ shppa_ shpss_ shpua_ shprt_", f"{_HEX}{{32,}}"),
    ("braintree token", ("access_token$",), rf"access_token\$(?:production|sandbox)\$[a-z0-9]{{16}}\${_HEX}{{32}}"),
    _prefixed(
        "payment key",
        "FLWSECK- FLWSECK_TEST- EZAK EZTK AQE shippo_live_ shippo_test_ duffel_live_ duffel_test_ rzp_live_",
        f"{_URL}{{24,}}",
    ),
    ("plaid token", ("access-",), rf"(?<![A-Za-z0-9])access-(?:sandbox|development|production)-{_UUID}"),
    # Messages and mail
    ("slack token", ("xox", "xapp-"), r"(?<![A-Za-z0-9])(?:xox[a-z](?:\.xox[a-z])?|xapp)-[A-Za-z0-9-]{10,}"),
    (
        "slack webhook",
        ("hooks.slack.com",),
        r"hooks\.slack\.com/(?P<s>(?:services|workflows|triggers)/[A-Za-z0-9/+_-]{20,})",
    ),
    (
        "discord webhook",
        ("/api/webhooks/",),
        rf"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(?P<s>\d{{10,}}/{_URL}{{30,}})",
    ),
    (
        "discord token",
        ("M", "N", "O"),
        r"(?<![A-Za-z0-9_-])[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,45}(?![A-Za-z0-9_-])",
    ),
    _prefixed("discord token", "mfa.", f"{_URL}{{60,}}"),
    (
        "teams webhook",
        ("webhook.office.com", "outlook.office.com/webhook"),
        r"(?:webhook\.office\.com|outlook\.office\.com)/(?P<s>webhook[a-z0-9]{0,3}/[^\s\"'<>]{30,})",
    ),
    (
        "chat webhook",
        ("chat.googleapis.com",),
        r"chat\.googleapis\.com/v1/spaces/[^\s\"'<>?]{1,80}\?(?P<s>key=[^\s\"'<>]{20,})",
    ),
    (
        "webhook",
        (
            "hooks.zapier.com",
            "maker.ifttt.com",
            "hook.integromat.com",
            "hooks.airtable.com",
            "open.feishu.cn",
            "qyapi.weixin.qq.com",
            "oapi.dingtalk.com",
        ),
        r"(?:hooks\.zapier\.com/hooks/catch/|maker\.ifttt\.com/trigger/|hook\.integromat\.com/|hooks\.airtable\.com/workflows/|open\.feishu\.cn/open-apis/bot/v2/hook/|qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=|oapi\.dingtalk\.com/robot/send\?access_token=)(?P<s>[^\s\"'<>]{12,})",
    ),
    (
        "incoming webhook",
        ("/hooks/",),
        r"https?://[A-Za-z0-9.-]{3,100}/hooks/(?P<s>[a-z0-9]{26}|[A-Za-z0-9]{17}/[A-Za-z0-9]{40,})(?![A-Za-z0-9])",
    ),
    (
        "telegram token",
        (":AA", ":"),
        rf"(?<![A-Za-z0-9])\d{{8,10}}:(?:AA{_URL}{{30,40}}|{_URL}{{35}})(?![A-Za-z0-9_-])",
    ),
    ("twilio key", ("SK",), r"(?<![A-Za-z0-9])SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _prefixed("sendgrid key", "SG.", rf"{_URL}{{16,32}}\.{_URL}{{30,}}"),
    ("mailgun key", ("key-",), r"(?<![A-Za-z0-9])(?:pub)?key-[0-9a-f]{32}(?![A-Za-z0-9])"),
    ("mailgun key", ("-",), r"(?<![A-Za-z0-9-])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![A-Za-z0-9-])"),
    ("mailchimp key", ("-us",), r"(?<![A-Za-z0-9])[0-9a-f]{32}-us\d{1,2}(?![A-Za-z0-9])"),
    _prefixed("mail key", "xkeysib- xsmtpsib- mlsn.", rf"{_HEX}{{40,}}[A-Za-z0-9-]{{0,40}}"),
    _prefixed("resend key", "re_", rf"(?={_WORD}{{0,8}}_{_WORD}{{20,}}){_WORD}{{6,10}}_{_WORD}{{20,}}"),
    # Work and operations
    _prefixed("linear key", "lin_api_ lin_oauth_ lin_wh_", f"{_WORD}{{30,}}"),
    _prefixed("notion token", "ntn_", f"{_WORD}{{36,}}"),
    _prefixed("notion token", "secret_", rf"(?={_WORD}{{0,40}}[0-9]){_WORD}{{36,}}"),
    ("airtable token", ("pat",), rf"(?<![A-Za-z0-9])pat{_WORD}{{14}}\.{_HEX}{{40,}}"),
    ("asana token", ("/",), r"(?<![A-Za-z0-9])[0-2]/\d{10,20}(?:/\d{10,20})?:[0-9a-f]{32}(?![A-Za-z0-9])"),
    _prefixed(
        "service token",
        "figd_ figo_ PMAK- CFPAT- sntrys_ sntryu_ sntrya_ sntryi_ hcaik_ hcbik_ hcxik_ pnu_ pnb_ tfp_ rdme_ dnkey-"
        " fio-u- napi_ rnd_ tskey- dt0c01. dt0s01. ops_eyJ phx_ phc_secret_ sk.eyJ tk-us- pat-na1- pat-eu1- sbp_"
        " sb_secret_ pscale_tkn_ pscale_oauth_ pscale_pw_ ddp_ ddapp_",
        r"[A-Za-z0-9_.=+/-]{20,}",
    ),
    ("clickup token", ("pk_",), r"(?<![A-Za-z0-9])pk_\d{5,10}_[A-Z0-9]{32}"),
    _prefixed("new relic key", "NRAK- NRJS- NRII- NRIQ- NRRA- NRSP- NRAA-", f"{_URL}{{16,}}"),
    ("new relic key", ("NRAL",), rf"(?<![A-Za-z0-9]){_HEX}{{36}}NRAL"),
    _prefixed("grafana token", "glsa_ glc_", "[A-Za-z0-9+/_=]{32,}"),
    ("sentry dsn", ("@",), rf"https?://(?P<s>{_HEX}{{32}}(?::{_HEX}{{32}})?)@[A-Za-z0-9.-]{{3,100}}/\d+"),
    (
        "vault token",
        ("hvs.", "hvb.", "hvr.", "s.", "b.", "r."),
        rf"(?<![A-Za-z0-9.])(?:hv[sbr]\.{_URL}{{20,}}|[sbr]\.(?=[A-Za-z]{{0,23}}[0-9])(?=[0-9a-z]{{0,23}}[A-Z]){_WORD}{{24}}(?![A-Za-z0-9]))",
    ),
    ("terraform token", (".atlasv1.",), rf"(?<![A-Za-z0-9]){_WORD}{{14}}\.atlasv1\.{_URL}{{40,}}"),
    ("okta token", ("SSWS", "00"), rf"(?:SSWS\s{{1,3}}(?P<s>{_URL}{{30,}}))"),
    _prefixed("dropbox token", "sl. sl.u.", f"{_URL}{{60,}}"),
    (
        "databricks token",
        ("dapi", "dose", "dkea", "dsapi"),
        rf"(?<![A-Za-z0-9])(?:dapi|dose|dkea|dsapi){_HEX}{{32}}(?:-\d)?(?![A-Za-z0-9])",
    ),
    (
        "doppler token",
        ("dp.",),
        rf"(?<![A-Za-z0-9])dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{{2,35}}\.)?{_WORD}{{30,}}",
    ),
    ("launchdarkly key", ("sdk-", "api-", "mob-"), rf"(?<![A-Za-z0-9])(?:sdk|api|mob)-{_UUID}"),
    ("openshift token", ("sha256~",), rf"sha256~{_URL}{{40,}}"),
    (
        "1password key",
        ("A3-",),
        r"(?<![A-Za-z0-9])A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
    ),
    ("harness token", ("pat.", "sat."), r"(?<![A-Za-z0-9])[ps]at\.[\w-]{22}\.[0-9a-f]{24}\.\w{20}"),
    _prefixed("facebook token", "EAAB EAAC EAAD EAAE EAAF EAAG EAAH EAAI EAAJ EAAK EAAL EAAM", f"{_WORD}{{30,}}"),
    _prefixed("twitter token", "AAAAAAAAAAAAAAAAAAAA", "[A-Za-z0-9%]{30,}"),
)

# Found by the words around them, so they may be short.
PHRASES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "private key",
        ("-----BEGIN",),
        (
            r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:"
            r"(?=[\s\S]{0,300}?[A-Za-z0-9+/]{16})(?:[^-]|-(?!----)){16,20000}-----END [A-Z0-9 ]{0,40}-----"
            r"|(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{20,}){1,500})"
        ),
    ),
    ("private key", ("PuTTY-User-Key-File",), r"PuTTY-User-Key-File-\d:[\s\S]{0,8000}?Private-MAC: ?[0-9a-f]+"),
    ("private key", ("LS0tLS1CRUdJTi",), r"LS0tLS1CRUdJTi(?:BQU|BFQ|BSU0|BPUE|BFTk|BERU)[A-Za-z0-9+/=]{40,}"),
    (
        "wireguard key",
        ("PrivateKey", "PresharedKey"),
        r"(?:Private|Preshared)Key\s{0,3}=\s{0,3}(?P<s>[A-Za-z0-9+/]{42,43}=)",
    ),
    (
        "password in an address",
        ("://",),
        r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/?#@\"'<>]{0,100}:(?P<s>[^\s/@\"'<>]{1,200})@[^\s@\"'<>]",
    ),
    ("password in an address", ("://",), r"(?:https?|git|ssh)://(?P<s>[A-Za-z0-9_~.-]{20,200})@[A-Za-z0-9]"),
    (
        "authorization header",
        ("uthorization", "UTHORIZATION"),
        r"(?<![A-Za-z])(?i:authorization)[\"']?\s{0,3}[:=,]\s{0,3}[\"']?(?i:(?:bearer|basic|token|apikey|digest|negotiate|ssws|key|hmac|aws4-hmac-sha256)\s{1,3})?(?!(?i:negotiate|digest|apikey|aws4-hmac-sha256)\b)(?P<s>[A-Za-z0-9+/_.~=:-]{8,})",
    ),
    (
        "bearer token",
        ("earer ", "EARER "),
        r"(?i:bearer)\s{1,3}(?=[A-Za-z+/_.~=-]{0,60}[0-9])(?P<s>[A-Za-z0-9+/_.~=-]{16,})",
    ),
    (
        "cookie",
        ("ookie:", "OOKIE:", 'ookie"', "ookie'", "ookie ", "ookie="),
        r"(?i:set-)?(?i:cookie)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<s>[A-Za-z0-9_.%-]{1,60}=[^\s;,\"']{8,}(?:;\s{0,2}[A-Za-z0-9_.%-]{1,60}=[^\s;,\"']{1,400}){0,40})",
    ),
    (
        "session id",
        ("sess", "SESS", "Sess", "sid=", "SID=", "SIDCC"),
        r"(?i:(?<![a-z])(?:(?:php|j|asp\.net_|laravel_|_?gitlab_|_?rails_|wordpress_|django_|user_|connect\.|_)?(?:session(?:[_-]?id|[_-]?token|[_-]?key)?|sess(?:id)?|sid|__secure-[a-z0-9_-]{1,30}))[\"']?\s{0,2}[=:]\s{0,2}[\"']?)(?=[A-Za-z_.%+/-]{0,40}[0-9])(?P<s>[A-Za-z0-9_.%+/=-]{16,})",
    ),
    (
        "password on a command line",
        (" -u ", "--user", "sshpass", "-p", "requirepass", "IDENTIFIED BY", "identified by"),
        (
            r"(?:(?:curl|wget|http)\b[^\n]{0,200}?\s(?:-u|--user)[= ]{1,2}[\"']?[^\s:\"']{1,60}:(?P<s>[^\s\"'$<{]{3,})"
            r"|sshpass\s{1,2}-p\s{0,2}[\"']?(?P<s2>[^\s\"'$<]{4,})"
            r"|mysql(?:dump|admin)?\b[^\n]{0,100}?\s-p(?P<s3>[^\s\"'$<-][^\s\"'$<]{3,})"
            r"|docker login\b[^\n]{0,100}?\s(?:-p|--password)[= ]{1,2}[\"']?(?P<s6>[^\s\"'$<]{4,})"
            r"|requirepass\s{1,2}(?P<s4>[^\s\"'$<]{4,})|(?i:identified by)\s{1,2}[\"'](?P<s5>[^\"']{4,})[\"'])"
        ),
    ),
    ("basic login", ("asic ",), r"\b[Bb]asic\s{1,2}(?P<s>[A-Za-z0-9+/]{10,}={1,2})"),
    ("airtable key", ("irtable",), rf"(?i:airtable)[^\n]{{0,30}}?\bkey{_WORD}{{14}}\b"),
    (
        "password",
        ("asic auth", "redentials", "creds", "ogin"),
        (
            r"(?i:basic auth|credentials|creds|login)(?:\s(?i:is|are))?[\s:=]{1,4}[A-Za-z0-9_.@-]{1,40}(?::|\s?/\s?)"
            r"(?=[^\s\d]{0,40}\d)(?P<s>[^\s/\"]{6,60})(?![^\s\"])"
        ),
    ),
    ("netrc password", ("login",), r"\blogin\s{1,4}\S{1,100}\s{1,4}password\s{1,4}(?P<s>[^\s\"$<{]{4,})"),
    ("pgpass entry", (":5432:",), r"(?m:^)[^\s:]{1,100}:5432:[^\s:]{1,60}:[^\s:]{1,60}:(?P<s>[^\s:\"$<{]{4,})"),
    (
        "password hash",
        ("$2", "$apr1$", "$1$", "$5$", "$6$", "$y$", "$argon2", "pbkdf2"),
        r"\$(?:2[abxy]\$\d\d\$[A-Za-z0-9./]{50,}|(?:apr1|1|5|6|y)\$[A-Za-z0-9./=$,]{20,}|argon2i?d?\$v=\d+\$[A-Za-z0-9+/=,$]{30,})|pbkdf2_sha\d+\$\d+\$[A-Za-z0-9+/=$]{30,}",
    ),
    ("kubernetes key data", ("client-key-data",), r"client-key-data:\s{0,4}[\"']?(?P<s>[A-Za-z0-9+/=]{40,})"),
    ("docker registry login", ('"auth"',), r"\"auth\":\s{0,4}\"(?P<s>[A-Za-z0-9+/]{12,}={0,2})\""),
)


# Secrets that only the words beside them give away: `password: …`, "the API key is …", a PIN, a seed phrase.

Found = tuple[str, int, int]

# Found with str.find, which is many times faster than one pattern of all of them.
_PASSWORD_WORDS = (
    *(
        "password",
        "passwd",
        "passwort",
        "kennwort",
        "passphrase",
        "passcode",
        "pwd",
        "contrase\u00f1a",
        "senha",
        "parola",
    ),
    *("mot de passe", "\u015fifre", "\u043f\u0430\u0440\u043e\u043b\u044c", "\u5bc6\u7801", "\u5bc6\u78bc"),
    *("\u53e3\u4ee4", "\u30d1\u30b9\u30ef\u30fc\u30c9", "\ube44\ubc00\ubc88\ud638"),
    *(
        "\u092a\u093e\u0938\u0935\u0930\u094d\u0921",
        "\u0643\u0644\u0645\u0629 \u0627\u0644\u0645\u0631\u0648\u0631",
        "\u0643\u0644\u0645\u0629 \u0627\u0644\u0633\u0631",
    ),
)
_KEY_WORDS = ("secret", "token", "credential", "schl\u00fcssel", "\u5bc6\u94a5", "\u5bc6\u9470")
# These count only as words of their own, because they are part of many others.
_SHORT_PASSWORD_WORDS = ("pass", "pw")
_SHORT_KEY_WORDS = ("key", "pat", "psk", "auth", "bearer")
FOREIGN_WORDS = tuple(word for word in (*_PASSWORD_WORDS, *_KEY_WORDS) if not word.isascii())
ASCII_WORDS = (
    *(word for word in (*_PASSWORD_WORDS, *_KEY_WORDS) if word.isascii()),
    *_SHORT_PASSWORD_WORDS,
    *_SHORT_KEY_WORDS,
)
_SECRET_KEYS = (
    *("api", "access", "private", "secret", "signing", "encryption", "master", "license", "account", "auth", "service"),
)
# Services whose keys are bare runs of letters and digits; beside their name such a run is a key.
SERVICES = (
    *("datadog", "algolia", "twilio", "mailgun", "cloudflare", "new relic", "newrelic", "pagerduty", "okta", "auth0"),
    *("vercel", "heroku", "mistral", "cohere", "deepgram", "pinecone", "rapidapi", "openweather", "alchemy", "infura"),
    *(
        "etherscan",
        "binance",
        "coinbase",
        "kraken",
        "mapbox",
        "trello",
        "zendesk",
        "amplitude",
        "mixpanel",
        "sumologic",
    ),
    *("splunk", "netlify", "supabase", "airtable", "sendgrid", "paypal", "shopify", "openai", "anthropic"),
    *(
        "planetscale",
        "rollbar",
        "bugsnag",
        "loggly",
        "fastly",
        "linode",
        "vultr",
        "hetzner",
        "scaleway",
        "snyk",
        "postmark",
    ),
)
_WORD_HERE = Pattern(
    f"(?P<password>{'|'.join(_PASSWORD_WORDS)})|(?P<key>{'|'.join(_KEY_WORDS)})"
    f"|{'|'.join((*_SHORT_PASSWORD_WORDS, *_SHORT_KEY_WORDS))}"
)
_NAME_GOES_ON = Pattern(r"[A-Za-z0-9_]{0,40}")
_ASSIGNED = Pattern(
    r"[\"'`\])]{0,2}"
    # what it is the password for may stand between the word and the colon
    r"(?:\s(?:for|of|on|to|de|para|pour|f\u00fcr|\u043e\u0442|\u0434\u043b\u044f)\s[^\n:=]{1,40}(?=[:=]|\sis\s))?"
    r"(?:\s{0,3}(?:=>|:=|={1,3}|:|>|\(|\uff1a|\|)\s{0,3}|\s{0,2}[\u662f\u4e3a\u70ba\u306f\ub294\uc740]\s{0,2}|\s[\u2013\u2014-]\s"
    r"|\s{1,3}(?:is|was|are|set to|ist|lautet|es|est|\u00e9|\u00e8|\u0647\u064a|\u0647\u0648|=)[\s:]{1,3}"
    r"|\s{1,2}|(?=[\"'`]))"
    r"(?:[rbfu@$](?=[\"'`]))?"
    r"(?:\"(?P<double>[^\"\n]{4,300})\"|'(?P<single>[^'\n]{4,300})'|`(?P<tick>[^`\n]{4,300})`"
    r"|(?P<bare>[^\s\"'`<>,;|=:(]{2,300}={0,2}))",
    ignores_case=True,
)
_REST_OF_PASSWORD = Pattern(r"[^\s\"'`<>,;&|)\]}]{0,300}")
_TOKEN = Pattern(r"[A-Za-z0-9][A-Za-z0-9+/_.~-]{19,500}={0,2}")
_SURE_WORD = Pattern(
    r"api[_ -]?key|secret|token|passw|credential|licen[cs]e|\bhex\b|\baes\b|hmac|(?:access|private)[_ -]?key",
    ignores_case=True,
)
_LAST_CYRILLIC = "\u052f"  # letters further on stand in sentences, not in passwords
_COUNTERS = (
    "\u5e74\u6708\u65e5\u5929\u56de\u6b21\u500b\u4e2a\u6841\u4f4d\u6587\u5b57\u5206\u79d2\u6642\u65f6"
    "\ub144\uc6d4\uc77c\ud68c\uc790\uac1c\ubd84"
)
_PHRASE_BLANKS = range(2, 8)
_SHORTEST_NUMBER, _SHORTEST_MIXED, _SHORTEST_PLAIN = 4, 5, 8
_FEWEST_DIGITS, _FEWEST_LETTERS, _MOST_ALIKE = 2, 3, 3
_ON_A_LINE = 24  # characters of a key that nothing but its line gives away
_DIGEST_LENGTHS = (40, 64)  # a commit or a SHA-256, unless the line is sure

# A name that goes on like this is about a secret, not one: password_min_length, token_url, KEY_ID.
_ABOUT = Pattern(
    r"min|max|len|timeout|ttl|reset|ur[il]|path|file|dir|name|field|input|policy|age|day|expir|rotat|type|format|prefix"
    r"|count|limit|id(?![a-z])|strength|regex|hint|label|env|var|ref|header|endpoint|manager|store|bucket|algo|version"
    r"|size|index|usage|budget|per_|window|izer|ized|ization",
    ignores_case=True,
)
_HARMLESS_BEFORE = Pattern(
    r"(?:public|cache|primary|foreign|partition|sort|idempotency|object|s3|translation|i18n|routing|publishable|max|ssh"
    r"|row|shard|lock|redis|map|dict|natural|surrogate|composite|hot|arrow|deploy|host|fingerprint|thumbprint|tracking"
    r"|cursor|page|next|continuation|pagination)[\s_-]{0,2}\Z",
    ignores_case=True,
)
_FINGERPRINT = Pattern(
    r"(?:sha-?\d|md5|blake|commit|digest|hash|checksum|integrity|rev(?:ision)?\b|etag|uuid|guid|trace|span|request"
    r"|fingerprint|thumbprint|image|build|zone|\bids?\b|merge|branch|\btag\b|base64,|AAAA[BCE]\d|ssh-|ecdsa-|public|serial|cursor)",
    ignores_case=True,
)
_PLACEHOLDER_MARKS = Pattern(r"[<>{}\[\]()]|\A[$%]|\$[A-Z_]{3}|%[A-Z]{3}|://")
_PLACEHOLDER_WORDS = Pattern(
    r"\.\.\.|\u2026|\*{3}|\$\{|\$\(|\{\{|\A[<$%{\[]|x{4}|your|example|change_?me|dummy|placeholder|redact|todo|fixme|sample"
    r"|replace|insert|environ|getenv|process\.env|config\.|settings\.|secrets\.|self\.|this\.|undefined|required"
    r"|optional|\bnone\b|\bnull\b|\btrue\b|\bfalse\b|masked|hidden|not[_ -]?set|lorem|foo.?bar|\A(?:op|arn|vault):",
    ignores_case=True,
)
_PLAIN_SEGMENT = Pattern(r"[A-Za-z]?[a-z._-]*[\d.-]{0,8}|[A-Z]+")
_FILE_NAME = Pattern(r"[\w/.-]{1,200}\.[a-z]{2,5}")
_UUID_WORD = Pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", ignores_case=True)
_NUMBER_WITH_UNIT = Pattern(r"[\d.,:_/+-]+[a-z%]{0,3}", ignores_case=True)
_PART = Pattern(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_HEX_WORD = Pattern(r"(?:0x)?[0-9a-f]{16,}", ignores_case=True)
_RUN = Pattern(r"[A-Z]+|[a-z]+|[0-9]+")

_PIN = Pattern(
    r"(?:\b(?:PIN|PUK)\b|(?i:\bpin\s?(?:code|number)|\bpasscode|\bpuk\b|\bpin(?=\s{0,2}[:=]|\s(?:is|was)\b)))"
    r"(?i:[\s:=#-]{1,4}(?:is|was|code|for|to|of)?(?:\s\w{1,12}){0,3}?[\s:=]{0,3})"
    r"(?P<s>\d{4}(?:\d{2}(?:\d{2})?)?)(?![\d.]\d|\d|-\d|\s?(?:px|mm|ms|Hz))"
)
_DOOR = Pattern(
    r"(?i:(?:(?:alarm|door|gate|garage|entry|lock|safe|security|unlock|access|verification|2fa|backup|login)\s"
    r"(?:codes?|combination|pin)|\botp|\bcvv2?|\bcvc2?)\s{0,2}(?:(?:is|was|:|=)\s{0,2})?)"
    r"(?P<s>\d{3,8}(?:[- ]\d{2,4}){0,3})(?![\d%]|\.\d)"
)
_SSN = Pattern(r"(?i:\bssn\b|social security)[^\n\d]{0,30}(?P<s>\d{3}-?\d{2}-?\d{4})(?!\d)")
# What must stand in the lower case of a text for the pattern to match: with no case to ignore it is found much sooner.
_NUMBERS = (
    ("pin", _PIN, Pattern(r"\b(?:pin|puk|passcode)")),
    ("code", _DOOR, Pattern(r"(?:code|combination|pin|otp|cv[vc])\w?\s{0,2}(?:(?:\w{2,3}|:|=)\s{0,2})?\d{3}")),
    ("social security number", _SSN, Pattern(r"\bssn\b|social security")),
)
_SEED = Pattern(r"seed|mnemonic|recovery|wallet|bip-?39|(?:backup|secret) (?:phrase|words)")
_SEED_WORDS = Pattern(r"(?<![a-z])[a-z]{3,8}(?:(?:\s{1,2}|,\s?|\s?\d{1,2}[.)]\s?)[a-z]{3,8}){11,23}(?![a-z])")
_SEED_WINDOW, _SEED_STARTS_WITHIN = 400, 60
_NOT_IN_SEEDS = frozenset(
    (
        "the",
        "and",
        "for",
        "with",
        "from",
        "are",
        "was",
        "were",
        "not",
        "but",
        "our",
        "has",
        "have",
        "had",
        "its",
        "will",
    )
)


def find_beside_words(text: str, lowered: str) -> Iterator[Found]:
    """`lowered` is the text in lower case, character for character."""
    line_end = -1
    for start, end, what in sorted(_words(lowered)):
        if what != "service":
            yield from _assigned(text, start, end, what)
        if start > line_end and not _HARMLESS_BEFORE.search(text[max(0, start - 16) : start]):
            line_start = text.rfind("\n", 0, start) + 1
            line_end = text.find("\n", end)
            line_end = len(text) if line_end < 0 else line_end
            yield from _on_line(text, line_start, line_end)


def is_told_at(text: str, lowered: str, at: int) -> bool:
    """Whether a word that begins at this place has a password or a key beside it."""
    word = _WORD_HERE.match(lowered, at)
    if word is None:
        return False
    what = word.lastgroup or _short_word(lowered, at, word.group())
    return bool(what) and any(True for _ in _assigned(text, at, word.end(), what))


def has_random_token(text: str) -> bool:
    """Whether there is a token that would be a key on a line which speaks of keys."""
    return any(is_random(token.group().rstrip("."), length=_ON_A_LINE) for token in _TOKEN.finditer(text))


def find_numbers_beside_words(text: str, lowered: str) -> Iterator[Found]:
    for kind, pattern, beginning in _NUMBERS:
        for match in pattern.finditer(text) if beginning.search(lowered) else ():
            yield kind, match.start("s"), match.end("s")


def find_seed_phrases(text: str, lowered: str) -> Iterator[Found]:
    for keyword in _SEED.finditer(lowered):
        yield from find_seed_phrase_after(text, keyword.end())


def find_seed_phrase_after(text: str, end: int) -> Iterator[Found]:
    """A seed phrase near a keyword that ends here."""
    # Where a colon or a bracket stands, the words come after it; otherwise the keyword's own sentence is let go.
    for words in _SEED_WORDS.finditer(text, end, end + _SEED_WINDOW):
        if words.start() <= end + _SEED_STARTS_WITHIN and _NOT_IN_SEEDS.isdisjoint(words.group().split()):
            yield "seed phrase", words.start(), words.end()


def is_placeholder(text: str, *, is_quoted: bool = False) -> bool:
    """An example, a reference to a variable or a masked value, as documentation and settings are full of."""
    if _PLACEHOLDER_WORDS.search(text) or (not is_quoted and _PLACEHOLDER_MARKS.search(text)):
        return True
    return len(text) > _MOST_ALIKE and len(set(text.lower())) <= min(_MOST_ALIKE, len(text) // 4)


def is_random(token: str, *, length: int = 16) -> bool:
    """Whether a token reads like a key drawn by a machine rather than like a name, a path, a number or a version."""
    if len(token) < length or _is_path(token):
        return False
    digits = sum(map(str.isdigit, token))
    if digits < _FEWEST_DIGITS:
        # With hardly a digit only the case can tell: the parts of aName are longer than those of qWzKp.
        is_mixed = not (token.isupper() or token.islower())
        return is_mixed and sum(1 for _ in _PART.finditer(token)) * (6 if digits else 5) >= len(token) * 2
    if sum(map(str.isalpha, token)) < _FEWEST_LETTERS:
        return False
    # Names change between letters and digits once or twice; keys do all the time.
    return _HEX_WORD.fullmatch(token) is not None or sum(1 for _ in _RUN.finditer(token)) * 4 >= min(len(token), 32)


def _is_path(token: str) -> bool:
    """Most of its segments are plain names, where those of a key are as mixed as the whole."""
    if "\\" in token or token.startswith(("./", "~/", "../")) or _FILE_NAME.fullmatch(token):
        return True
    segments = [segment for segment in token.split("/") if segment]
    return "/" in token and 2 * sum(1 for one in segments if _PLAIN_SEGMENT.fullmatch(one)) > len(segments)


def _words(lowered: str) -> Iterator[tuple[int, int, str]]:
    whole = (("password", _PASSWORD_WORDS), ("key", _KEY_WORDS), ("service", SERVICES))
    for what, word in ((what, word) for what, words in whole for word in words):
        yield from ((at, at + len(word), what) for at in _places(lowered, word))
    for word in (*_SHORT_PASSWORD_WORDS, *_SHORT_KEY_WORDS):
        for at in _places(lowered, word):
            if what := _short_word(lowered, at, word):
                yield at, at + len(word), what


def _short_word(lowered: str, at: int, word: str) -> str:
    """What a word means that counts only when it stands alone, or names a key; "" when it is part of another."""
    end = at + len(word)
    is_named = word == "key" and lowered[max(0, at - 12) : at].rstrip(" _-").endswith(_SECRET_KEYS)
    if lowered[end : end + 1].isalpha() or (lowered[at - 1 : at].isalpha() and not is_named):
        return ""
    if is_named:
        return "key"
    return "password" if word in _SHORT_PASSWORD_WORDS else "weak key"


def _places(lowered: str, word: str) -> Iterator[int]:
    at = lowered.find(word)
    while at >= 0:
        yield at
        at = lowered.find(word, at + len(word))


def _assigned(text: str, word_start: int, word_end: int, what: str) -> Iterator[Found]:
    name = _NAME_GOES_ON.match(text, word_end)
    name_end = word_end if name is None else name.end()
    match = _ASSIGNED.match(text, name_end)
    if match is None or _ABOUT.search(text, word_end, name_end):
        return
    group = match.lastgroup or "bare"
    is_quoted = group != "bare"
    start, end = match.span(group)
    value = match[group]
    if not is_quoted:
        if text.startswith("(", end):
            return  # a call
        rest = _REST_OF_PASSWORD.match(text, end) if what == "password" else None
        value = _up_to_words(value if rest is None else value + rest.group()).rstrip(".,;:)]}")
        end = start + len(value)
    if len(value) < _SHORTEST_NUMBER or is_placeholder(value, is_quoted=is_quoted) or value.startswith("-----BEGIN"):
        return
    is_flag = text[max(0, word_start - 24) : word_start].rpartition(" ")[2].startswith("-")
    is_assigned = is_flag or bool(text[name_end:start].strip(" \t\"'`"))
    if what == "password":
        if _is_password(value, is_quoted=is_quoted, is_assigned=is_assigned):
            yield "password", start, end
    elif not _HARMLESS_BEFORE.search(text[max(0, word_start - 16) : word_start]):
        is_api_key = text[word_start:word_end].lower() == "key"
        if _is_key(value, is_weak=what == "weak key", is_assigned=is_assigned or is_quoted, is_api_key=is_api_key):
            yield "key or token", start, end


def _up_to_words(value: str) -> str:
    """`value` without the words behind it where nobody writes spaces; empty when it is words, or a number of days."""
    for at, char in enumerate(value):
        if (char > _LAST_CYRILLIC and char.isalpha()) or "\u3000" <= char <= "\u303f" or "\uff00" <= char <= "\uffef":
            return "" if value[:at].isdigit() and char in _COUNTERS else value[:at]
    return value


def _is_password(value: str, *, is_quoted: bool, is_assigned: bool) -> bool:
    if not is_assigned:
        is_word_with_digits = is_quoted and value.isalnum() and not value.isalpha() and len(value) >= _SHORTEST_PLAIN
        return is_word_with_digits or is_random(value, length=10)
    if " " in value:  # a pass phrase, and not a sentence about one
        return is_quoted and value.replace(" ", "").isalpha() and value.islower() and value.count(" ") in _PHRASE_BLANKS
    if value.isdigit():
        return len(value) >= _SHORTEST_NUMBER
    if not _UUID_WORD.fullmatch(value) and (_is_path(value) or _NUMBER_WITH_UNIT.fullmatch(value)):
        return False
    is_mixed = not value.replace("-", "").replace("_", "").replace(".", "").isalpha()
    return len(value) >= (_SHORTEST_MIXED if is_mixed else _SHORTEST_PLAIN) and (is_mixed or is_quoted)


def _is_key(value: str, *, is_weak: bool, is_assigned: bool, is_api_key: bool) -> bool:
    if _FINGERPRINT.search(value[:12]):
        return False
    if _UUID_WORD.fullmatch(value):
        return not is_weak and (is_assigned or is_api_key)
    return is_random(value, length=(24 if is_weak else 12) if is_assigned else 20)


def _on_line(text: str, start: int, end: int) -> Iterator[Found]:
    """Long random tokens on a line that speaks of keys, unless a word before them says what else they are."""
    is_sure = _SURE_WORD.search(text, start, end) is not None
    for token in _TOKEN.finditer(text, start, end):
        value = token.group().rstrip(".")
        explained = _FINGERPRINT.search(text[max(start, token.start() - 32) : token.start() + 8])
        if explained or is_placeholder(value) or _UUID_WORD.search(value) or not is_random(value, length=_ON_A_LINE):
            continue
        if is_sure or len(value) not in _DIGEST_LENGTHS:
            yield "key or token", token.start(), token.start() + len(value)
