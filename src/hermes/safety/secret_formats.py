"""The formats of secrets: one table of the vendors' keys and tokens, and of what stands beside a password in a file.

A format is a name, literals of which one must stand in the text before its pattern is compiled or run, and the pattern.
A pattern is a fixed beginning followed by runs of one character class, so no text can make it backtrack. The group `s`,
where there is one, is the secret itself; otherwise the whole match is. The first format that matches names the secret.
"""

from __future__ import annotations

import re

Format = tuple[str, tuple[str, ...], str]
BEFORE_PREFIX = "(?<![A-Za-z0-9])(?:"  # how the pattern of a format begins whose literals are beginnings

_HEX = "[0-9a-fA-F]"
_WORD = "[A-Za-z0-9]"
_URL = "[A-Za-z0-9_-]"
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"


def _prefixed(kind: str, prefixes: str, body: str) -> Format:
    """A token that starts with one of the prefixes, which are separated by blanks and hold no pattern syntax."""
    hints = tuple(prefixes.split())
    return kind, hints, f"{BEFORE_PREFIX}{'|'.join(map(re.escape, hints))}){body}"


# Found by their own shape: each holds a run of 16 or more characters.
TOKENS: tuple[Format, ...] = (
    _prefixed("hermes key", "hk-", f"{_URL}{{43}}(?![A-Za-z0-9_-])"),
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
PHRASES: tuple[Format, ...] = (
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
