"""Mask keys, passwords and tokens in a text, and replace words that a user chose. Pure.

All that masks asks here what a secret is, in linear time. A key is recognised by its own form, or by the name before
it: then its value must be no placeholder, no code and no ordinary word. Of the user's words, whole ones are replaced in
any letter case; of overlapping matches, the longer one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from memory_core.errors import FormatError
from memory_core.text import UNSPACED

# -- keys by their form ------------------------------------------------------------------------------------

_BEGIN, _END = (rf"-----{word} [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----" for word in ("BEGIN", "END"))
_FORMS = (
    # A private key, whole or cut off; its lines may be joined, quoted or escaped.
    ("PRIVATE KEY", rf"{_BEGIN}(?:(?:[^-]++|-(?!----))*+{_END}|(?:(?:\s|\\[nr]|[\"',+>|]){{1,40}}+"
     r"(?:(?:Proc-Type|DEK-Info|Version|Comment):[^\n]*+|(?=[A-Za-z]{0,80}[\d+/=]|[A-Za-z]{16})[\w+/=]{4,}+))*+)"),
    ("eyJ", r"(?<![A-Za-z0-9])eyJ[\w-]{8,}+(?:\.[\w-]++){1,4}+"),
    # By the beginnings that vendors chose, so that such keys can be found.
    ("", r"(?<![A-Za-z0-9])(?:"
     r"(?:sk|pk|rk|gl[a-z]{2,6}|xox[abceoprs]|xapp|xai|pplx|nvapi|tvly|pypi|tskey|PMAK|CFPAT|GOCSPX|sq0[a-z]{3})-"
     r"|(?:[spr]k_(?:live|test|prod)|gh[oprsu]|github_pat|hf|npm|pcsk|gsk|r8|whsec|mi|lsv2|dckr_pat|rubygems"
     r"|sntry[su]|gl(?:c|sa)|lin_api|ntn|figd|sbp|shp(?:at|ca|pa|ss)|do[opr]_v1|EAA[A-Z]|re|ph[cx]|ops|sk|secret)_"
     r"|(?:SG|ya29|hv[bs]|dapi(?=[0-9a-f])|A(?:KIA|SIA|BIA|CCA)|AIza|AGE-SECRET-KEY-)\.?"
     r")(?=[\w.-]{0,60}[\dA-Z])(?![\w.-]{0,20}(?:\.\.\.|…))[\w-]{12,}+(?:[.=][\w-]{6,}+)*+"
     r"|(?<!\d)\d{8,10}:A[\w-]{26,}+|(?<![\w-])[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}+"),
    ("$", r"(?<![\w$])\$(?:[156y]|2[abxy]|apr1|argon2\w{1,2}|scrypt)\$[\w./$=,+-]{20,}+"),
    ("hooks", r"(?:hooks\.slack\.com/\w{1,20}|/api/webhooks/\d{5,30})/(?P<key>[\w/-]{12,}+)"),
    # In an address: the password before `@`, or a whole word there that is long.
    ("@", r"://[^\s/?#@:\"'<>]{0,200}+:(?P<key>(?:[^\s/\"'<>]|/(?!/)){1,300})@(?=[\w.\[-])"
     r"|://(?P<user>[\w-]{16,200}+)@"),
    # What HTTP and command lines send.
    ("uthorization", r"uthorization[\"'\\\])]{0,6}\s{0,3}[:=,]\s{0,3}[\\\"'f]{0,6}"
     r"(?:[A-Za-z][\w-]{2,20} |(?=[\w-]{0,80}\d))(?P<key>[^\s\"'\\,]{3,}+)"),
    ("earer", r"(?<![A-Za-z])[Bb]earer:?\s{1,3}(?P<key>(?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{8,}+)"),
    ("asic", r"(?<![A-Za-z])[Bb]asic\s"
     r"(?P<key>(?=[a-zA-Z]{0,200}[\d=+/]|[a-z]{0,99}[A-Z]{1,9}[a-z])[\w+/-]{8,}+={0,2})"),
    ("ookie", r"[Cc]ookie2?[\"']?: ?[\"']?(?P<key>[\w.-]{1,80}=[^\n\"']{4,})"),
    ("curl", r"curl(?:\.exe)?\s(?:[^\n]{0,200}?\s)?(?:-[a-zA-Z]{0,6}u|--(?:proxy-)?user)[ =]{0,2}[\"']?[^\s:\"']{1,80}:"
     r"(?P<key>[^\s\"']{2,}+)"),
    ("-p", r"(?:mysql|mariadb)[a-z]{0,8}\s(?:[^\n]{0,200}?\s)?-p(?P<key>[^\s\"']{3,}+)"),
    ("-p", r"(?:sshpass|(?:docker|podman|helm)\s(?:registry )?login)\s(?:[^\n]{0,200}?\s)?-p[ =]?[\"']?"
     r"(?P<key>[^\s\"'-][^\s\"']{2,}+)"),
    ("-a", r"redis-cli\s(?:[^\n]{0,200}?\s)?-a[ =]?[\"']?(?P<key>[^\s\"']{3,}+)"),
    ("", r"(?:IDENTIFIED|identified)(?: WITH \w{1,40})? (?:BY|by) [\"'](?P<key>[^\"'\n]{1,200})"),
    ("echo", r"echo\s(?:-\w\s)?[\"']?(?:[\w.-]{1,60}:)?(?P<key>[^\s\"'|]{3,200})[\"']?\s?\|\s?"
     r"(?:sudo\s(?:-\w\s)?-S|chpasswd|[^|\n]{0,80}-stdin)"),
    ("", r"(?:[Pp]ass ?phrase|[Ss]eed(?: phrase)?|[Mm]nemonic)(?:\s?[:=]| is:?)\s"
     r"(?P<key>[a-z]+(?: [a-z]+){3,23})(?=[.\"']?$)"),
    ("login", r"(?<![\w-])login\s{1,9}[^\s]{1,100}\s{1,9}password\s{1,9}(?P<key>\S++)"),
    (":", r"^[^\s:/]{1,200}+:(?:\d{4,5}|\*):[^\s:]{1,64}+:[^\s:]{1,64}+:(?P<key>[^\s:]\S*+)$"),
)  # fmt: skip
"""Pairs of characters that any key of a form has, and the form. A group is the secret in it, else all of it is."""

_COMPILED = [(needle, re.compile(form, re.MULTILINE)) for needle, form in _FORMS]

_RUN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{20,}+|(?<![A-Za-z0-9_+/-])[A-Za-z0-9_+/-]{32,}+={0,2}")
_HASH = re.compile(r"[0-9a-f]+")
_HASH_LENGTHS = {32, 40, 64, 96, 128}
"""Lengths of MD5, SHA-1, as git names commits, and SHA-2, in hexadecimal digits."""

_NEXT_LINE = re.compile(
    r"[ \t]*+\\?\r?\n[ \t>|]{0,8}(?=[\w/+-]{0,80}\d)(?=[\w/+-]{0,80}[A-Z])[\w/+-]{8,}+={0,2}(?=\s|\Z)"
)
"""Matches what goes on in the next line after a key that a terminal broke."""
_BROKEN = 16
"""Characters of a key that may go on in the next line."""
MAX_LINES = 5
"""Lines of a key that a terminal broke."""

# -- keys by the name before them --------------------------------------------------------------------------

_BEFORE_KEY = (
    "access account admin api app auth bot client consumer deploy deployment encryption function functions hmac "
    "jwt license management master private secret service session shared signing storage subscription webhook "
    "write"
)
_WHOLE = r"(?<![a-z]{})".format
_NAMES = [
    re.compile(rf"(?:{name})(?:[_-]?(?:value|text|string|base|b64|hash))?(?:[_-]?\d{{1,2}})?(?![a-z\d])")
    for name in (
        r"pass(?:[ _-]?words?|wd|[_-]?phrase|code|wort|(?<=[_-]pass))",
        f"pwd|pw{_WHOLE('pw')}",
        f"pin{_WHOLE('pin')}",
        *("kennwort", "contraseña", "mot de passe", "senha", "пароль", "密码", "パスワード"),
        "secret(?:[ _-]?(?:access[ _-]?)?key)?",
        "token",
        "credentials?",
        "key(?:" + "|".join(rf"(?<={word}{sign}key)" for word in _BEFORE_KEY.split() for sign in ("", "[ _-]")) + ")",
        rf"auth{_WHOLE('auth')}(?=[\"' \\]{{0,9}}[:=])",
        "_key",
        *(rf"{name}(?<=[?&-]{name})(?==)" for name in ("sig", "signature", "key")),
        "signature(?<= signature)(?==)",
    )
]
"""Names in small letters, each pattern beginning with letters that are quickly found."""
_STRONG = re.compile("pass|pwd|pw|pin|kennwort|contra|mot de|senha|пароль|密码|パスワード")
"""Beginning of the names of what people choose as words; the others name what machines make."""

_JOIN = re.compile(
    r"[*_~]{0,2}\\{0,8}(?:[\"'`”]|&quot;|&#34;|%22)?[)\]]{0,2}[*_~]{0,2}(?:"
    r"(?: \([^()\n]{1,30}\)| (?:for|of|to|on|at|in) [\w'.-]{1,30})?"
    r"\s{0,3}(?::=|=>|::?|：|[!=]{0,2}=|->|→|%3[ADad]|&#(?:58|61);)"
    r"[*_~]{0,2}\s{0,40}(?:[|>][+-]?\s{1,20}|&quot;|&#34;|%2[02]){0,2}"
    # {"name": "PASSWORD", "value": …}, the same in YAML and XML, set_password("…"), ("password", "…")
    r"|[\s,-]{1,40}\\{0,8}[\"']?value\\{0,8}[\"']?\s?(?P<field>[:=])\s{0,3}|(?P<call>\(\s?|,\s?)(?=[\\\"'])"
    r"|(?P<loose>(?: (?:for|of|to|on|at) [\w'. -]{1,40}?)? (?:is|was|are|set to|changed to|ist|est|es|é)[: ]{1,2}|是"
    r"|\s{0,9}[>|]\s{0,9}| ?[-–—,;] |\s{1,4}))b?"
)  # fmt: skip
_VALUE = re.compile(
    r"(?P<open>\\{0,8}(?:\"\"\"|[\"'`]))(?P<quoted>[^\s)\],:;}][^\n]{0,500}?)(?<!\\)(?P=open)"
    r"|[“‘„«](?P<curly>[^\n“”’«»]{1,200})[”’“»]"
    r"|\\{0,8}[\"'`“]?(?P<plain>(?:[^\s\"'`,;&<\\]|[,;&](?![\w ]{1,40}[=:]|[\s\"']|\Z)|[\"'](?=\w)|<(?!/)"
    r"|\\(?![nrt\"'\s])){1,200})"
)  # fmt: skip
_REST = re.compile(r"[^\s\"'`<\\]*+")

_ORDINARY = re.compile(
    "a|an|and|any|are|as|at|be|bool|boolean|bytes|changed|char|correct|default|disabled|dict|does|empty|enabled|"
    "expired|false|field|file|float|for|from|has|hidden|here|if|in|incorrect|input|int|integer|invalid|is|it|"
    "left|list|long|masked|missing|must|needed|new|nil|no|none|not|null|number|object|of|ok|old|on|only|optional|"
    "or|prompt|redacted|required|reset|right|set|short|should|str|string|text|that|the|they|this|to|true|type|"
    "undefined|unknown|unset|unused|value|varchar|was|what|when|which|who|will|with|wrong|yes|you|your",
    re.IGNORECASE,
)
"""Words that follow a name and are no secret: types, states, and words of grammar."""
_PLACEHOLDER = re.compile(
    r"(?i)[\W_]*(?:your|insert|enter|change|replace)[-_ ].*|.*[-_ ](?:here|placeholder|redacted)"
    r"|[<\[{(%].*[>\]})%]|\$(?:[{(].*|(?-i:[A-Z_][A-Z0-9_]*|[a-z_]+))|f?[\"']?\{.*\}.*|.*\$\{.*\}.*|changeme|example"
    r"|(?:(?:db|my|user)[-_]?)?(?:pass(?:word|wd|phrase)?|pwd?|secret|token|key)"
)
_CODE = re.compile(
    r"[&*!-]*[A-Za-z_][\w]*(?:(?:\.|::|->|\?\.)[A-Za-z_]\w*)*[(\[].*|[A-Za-z_]+(?:(?:\.|::|->|\?\.)[A-Za-z_]+)+"
)
_PROSE = re.compile(r"[ \t]{1,3}[^\W\d_]{2,}")


def key_spans(text: str) -> list[tuple[int, int]]:
    """Return the places of all secrets in a text, in order and apart."""
    spans: list[tuple[int, int]] = []
    for start, stop in sorted([*_by_form(text), *_by_name(text)]):
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(stop, spans[-1][1])
        else:
            spans.append((start, stop))
    return spans


def _by_form(text: str) -> Iterator[tuple[int, int]]:
    for needle, form in _COMPILED:
        for match in form.finditer(text) if needle in text else ():
            group = match.lastgroup or 0
            if not _is_placeholder(match[group]):
                yield match.start(group), _continued(text, *match.span(group))
    for match in _RUN.finditer(text):
        if _is_random(match.group()):
            yield match.start(), _continued(text, *match.span())


def _continued(text: str, start: int, end: int) -> int:
    """Return where a key ends that may go on in the next lines."""
    for _ in range(MAX_LINES - 1):
        more = _NEXT_LINE.match(text, end) if end - start >= _BROKEN else None
        end = more.end() if more else end
    return end


def _is_random(run: str) -> bool:
    """Return whether letters, digits and cases change as often as by chance, and not as in names and hashes."""
    if len(run) in _HASH_LENGTHS and _HASH.fullmatch(run):
        return False
    run = run[:200]
    kinds = ["0" if sign.isdigit() else "A" if sign.isupper() else "a" for sign in run if sign.isalnum()]
    changes = sum(one != other for one, other in pairwise(kinds))
    numbers = sum((one == "0") != (other == "0") for one, other in pairwise(kinds))
    if run.isalnum():
        return {"0"} < set(kinds) and (numbers >= 3 or changes >= 0.4 * len(kinds))
    return min(map(kinds.count, "0Aa")) >= 3 and changes >= 0.4 * len(kinds)


def _by_name(text: str) -> Iterator[tuple[int, int]]:
    end, small = 0, _small(text)
    for name in sorted((match for names in _NAMES for match in names.finditer(small)), key=re.Match.start):
        join = _JOIN.match(text, name.end()) if name.start() >= end else None
        value = join and _VALUE.match(text, join.end())
        if join is None or value is None:
            continue
        group = value.lastgroup or ""
        start, stop = value.span(group)
        # What ends a sentence or closes a bracket is no part of the value.
        ends = ".,;:!?)]}" if join.group()[-1:].isspace() else ")]}"
        while group == "plain" and start < stop and text[stop - 1] in ends:
            if "([{"[")]}".find(text[stop - 1])] in text[start:stop] and text[stop - 1] in ")]}":
                break
            stop -= 1
        if start < stop and _is_secret(text, name, join, text[start:stop], stop if group == "plain" else None):
            rest = _REST.match(text, stop) if stop - start >= 200 else None
            end = rest.end() if rest else stop
            yield start, end


def _small(text: str) -> str:
    # The only letter that has two in small.
    return text.replace("İ", "I").lower()


def _is_placeholder(value: str) -> bool:
    few = len({sign for sign in value.casefold() if sign.isalnum()}) < 2
    return few or (len(value) <= 200 and bool(_PLACEHOLDER.fullmatch(value) or "://" in value))


def _is_secret(text: str, name: re.Match[str], join: re.Match[str], value: str, stop: int | None) -> bool:
    """Return whether the value of a name is a secret. `stop`: where it ends if it is not quoted."""
    strong, joined = bool(_STRONG.match(name.group())), join.group()
    digits, letters = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    named = any(
        match.end() == len(value) and (value[match.start()].isupper() or not value[: match.start()][-1:].isalnum())
        for names in _NAMES
        for match in names.finditer(_small(value))
    )
    if _is_placeholder(value) or _ORDINARY.fullmatch(value) or (named and not digits):
        return False
    if name.group() == "pin":
        return bool(re.fullmatch(r"\d{4,12}", value))
    before = text[max(0, name.start() - 40) : name.start()]
    mixed = digits and letters and not re.match(r"(?i)(?:sha|md|utf|base|aes|oauth|v|gpt)-?\d", value)
    spaced, after = joined[-1:].isspace(), text[stop : stop + 40] if stop is not None else ""
    upper, flag = text[slice(*name.span())].isupper(), bool(re.search(r"(?:^|\s)--?[\w-]*$", before))
    shouted = (upper or flag) and "=" in joined and not spaced
    flag = flag and joined.isspace()
    if name.group() == "_key":
        return upper and mixed and len(value) >= 10
    if join["call"] and not (strong and "(" in joined):
        return mixed
    if join["loose"] and not flag:
        if ">" in joined:
            return (mixed or strong) and after.startswith("</")
        if "|" in joined:
            return mixed
        word = strong and stop is None and " " not in value
        if not joined.strip(" -–—,;\t\n"):
            return word or (mixed and len(value) >= 7 and (strong or before.endswith("_")))
        return word or (mixed and len(value) >= 6) or (strong and digits and len(value) >= 4)
    if "\n" in joined and not join["field"]:
        return mixed and len(value) >= 6
    if stop is None:
        if any(map(str.isspace, value)):
            return strong and value.count(" ") < 8
        return strong or (len(value) >= 6 and mixed) or len(value) >= (16 if "token" in name.group() else 8)
    if (not shouted and _CODE.fullmatch(value)) or re.fullmatch(r"[.~]?(?:/[A-Za-z_.-]+)+/?", value):
        return False
    if name.group() == "pwd" and value[0] in "/.~":
        return False
    if digits and not letters:
        return len(value) >= (4 if strong else 10)
    if digits:
        return len(value) >= (3 if strong else 6)
    # Letters only: a word of a sentence, a type, a variable, or a secret.
    if shouted or (not strong and len(value) >= 16 and "_" not in value):
        return len(value) >= 6
    typed = after.startswith((",", ")", " =", "|")) and ("=" in joined or value[0].isupper())
    if flag:
        return strong and len(value) >= 4 and not value.isupper()
    if typed or ("_" in value and "=" in joined) or (spaced and _PROSE.match(after)):
        return False
    return strong or (len(value) >= (12 if "token" in name.group() else 8) and not after.partition("\n")[0].strip())


# -- what is masked, and what replaced -----------------------------------------------------------------------

MAX_CHARACTERS = 200
"""Maximum characters of a replacement."""

KEY_MASK = "[key]"

_LETTER = rf"(?:(?![{UNSPACED}])[^\W_])"
"""A letter or digit in scripts that separate words by spaces."""


def mask_keys(text: str) -> str:
    """Return the text with `[key]` in place of each key, password and token.

    >>> mask_keys("my token: abc123, DB_PASSWORD=swordfish and sk-proj-abc123def456ghi")
    'my token: [key], DB_PASSWORD=[key] and [key]'
    """
    pieces, end = [], 0
    for start, stop in key_spans(text):
        pieces += [text[end:start], KEY_MASK]
        end = stop
    return "".join([*pieces, text[end:]])


class Replacements:
    """Replaces words by others."""

    def __init__(self, words: Mapping[str, str]) -> None:
        """Validate the words and their replacements.

        Raises:
            FormatError: A word is repeated or has no letter, or a replacement is empty or too long.
        """
        self.words = dict(words)
        spelled: dict[str, str] = {}
        for word, other in words.items():
            # Compared without case and spacing, as texts are.
            same = spelled.setdefault(" ".join(word.casefold().split()), word)
            if not re.search(r"[^\W_]", word):
                raise FormatError(f"“{word}” cannot be replaced: it has no letter or digit.")
            if not other.strip():
                raise FormatError(f"Enter a replacement for “{word}”.")
            if len(other) > MAX_CHARACTERS:
                raise FormatError(f"The replacement for “{word}” may have at most {MAX_CHARACTERS} characters.")
            if same != word:
                raise FormatError(f"“{same}” and “{word}” are the same word. Keep one of them.")
        # Of alternatives, a pattern takes the first that matches, so the longest word comes first.
        self._order = sorted(words, key=len, reverse=True)
        self._pattern = re.compile("|".join(f"({_whole(word)})" for word in self._order) or r"(?!)", re.IGNORECASE)

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Count the replacements of each word in some texts."""
        return Counter(self._word(match) for text in texts for match in self._pattern.finditer(text))

    def replace(self, text: str) -> str:
        """Return the text with each word replaced."""
        return self._pattern.sub(lambda match: self.words[self._word(match)], text)

    def replace_all(self, texts: Iterable[str]) -> list[str]:
        """Return texts with each word replaced.

        Raises:
            FormatError: A word is still readable, because a replacement contains or recreates it.
        """
        replaced = [self.replace(text) for text in texts]
        # Counted again after replacing: what was put in may contain another word that was to disappear.
        if remaining := self.count(replaced):
            word = next(iter(remaining))
            raise FormatError(f"“{word}” could still be read. Choose other replacements.")
        return replaced

    def _word(self, match: re.Match[str]) -> str:
        return self._order[(match.lastindex or 1) - 1]


def _whole(word: str) -> str:
    """Build a pattern that matches a word only as a whole.

    If the word begins or ends with a sign, Kana or Han, another word may be directly next to that end.
    """
    parts = word.split()
    before = rf"(?<!{_LETTER})" if re.match(_LETTER, parts[0]) else ""
    behind = rf"(?!{_LETTER})" if re.match(_LETTER, parts[-1][-1]) else ""
    return before + r"\s+".join(map(re.escape, parts)) + behind
