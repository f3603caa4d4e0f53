"""Formatting of names, numbers and times on screen. Pure; no Streamlit.

User texts must go through `plain` before anything that Streamlit reads as markdown.
"""

import re
import string
import unicodedata
from datetime import UTC, datetime, timedelta, tzinfo

_MARKUP = re.compile(f"([{re.escape(string.punctuation)}])")

_REPLACED = re.compile(r"(?<=[-<>~])(?=[->=])|(?<=:)(?=//|streamlit)|(?<=w)(?=ww\.)|(?=@)", re.IGNORECASE)
"""Matches what Streamlit replaces after parsing the markup: arrows and dashes, URLs, its own logo."""

_UNFIT = re.compile(
    r'[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff<>:"/\\|?*]+'
)
"""Characters that some operating system does not allow in a file name, or that hide or turn round what follows."""

_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3])\s*(\.|$)", re.IGNORECASE)
"""Matches names that Windows keeps for devices, with any ending."""

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
"""Listed here, because strftime depends on the server's locale."""

_JUST_NOW = timedelta(minutes=1)
_RELATIVE = timedelta(days=1)


def plain(text: str) -> str:
    """Markdown that shows `text` literally, on one line: nothing in it formats, links, loads or becomes an icon.

    Every ASCII punctuation mark gets a backslash, so `plain("a*b*")` is `a\\*b\\*`. Line breaks, tabs and runs of
    spaces become one space, because four leading spaces alone would make a code block; control characters are removed.
    URLs, `->` and the like are no markup, so an invisible word joiner (U+2060) keeps Streamlit from turning them into
    links and arrows.
    """
    line = " ".join(text.split())
    # After splitting, because tabs and line breaks are control characters too and became spaces.
    line = "".join(character for character in line if unicodedata.category(character) != "Cc")
    # Joiners first: they are no punctuation, so the escaping leaves them alone.
    return _MARKUP.sub(r"\\\1", _REPLACED.sub("\N{WORD JOINER}", line))


def tokens(n: int) -> str:
    """A number with separators: `tokens(1178)` is `1,178`."""
    return f"{n:,}"


def size(bytes: int) -> str:
    """Size in words: `62 MB`, `1.4 MB`, `80 KB`; one MB is 1,048,576 bytes, as the file picker counts."""
    if bytes < 1024 * 1024:
        return f"{tokens(max(1, round(bytes / 1024)))} KB"
    megabytes = bytes / 1024 / 1024
    return f"{megabytes:.1f} MB" if megabytes < 10 else f"{tokens(round(megabytes))} MB"


def session_name(title: str, session_id: str) -> str:
    """Return the display name of a session: its title, or its whole id."""
    return title or session_id


def count(n: int, noun: str) -> str:
    """A number with its noun: `1 message`, `4 messages`, `1,178 deliveries`."""
    return f"{tokens(n)} {noun if n == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Plural of a noun: `messages`, `deliveries`, `batches`."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    # After a vowel, only s is added: days, not daies.
    if noun.endswith("y") and noun[-2:-1] not in set("aeiou"):
        return noun[:-1] + "ies"
    return noun + "s"


def short(name: str, most: int = 24) -> str:
    """`name`, cut with … to at most `most` characters. Not escaped: give the result to `plain`."""
    return name if len(name) <= most else name[: most - 1].rstrip() + "…"


def file_stem(title: str) -> str:
    """A title as a file name valid on any system, without an ending."""
    # Some systems do not accept a name that ends in a dot or a space, commands take one with a leading hyphen for an
    # option, and 80 characters leave room for an ending.
    stem = " ".join(_UNFIT.sub(" ", title).split()).lstrip(" .-")[:80].rstrip(" .") or "session"
    return f"_{stem}" if _DEVICE.match(stem) else stem


def ago(moment: datetime | float, now: datetime | float, zone: tzinfo = UTC) -> str:
    """Time since `moment`: `just now`, `2 min ago`, `5 h ago`; after a day `12 May, 14:05`, plus a differing year.

    Both times are aware datetimes or seconds since 1970. `zone` is the user's time zone, for the written-out form.
    A moment less than a minute after `now` is due to differing clocks, so `just now`; later ones are written out.
    """
    then, present = _in_zone(moment, zone), _in_zone(now, zone)
    passed = present - then
    if abs(passed) < _JUST_NOW:
        return "just now"
    if timedelta(0) < passed < _RELATIVE:
        minutes = int(passed.total_seconds() // 60)
        return f"{minutes} min ago" if minutes < 60 else f"{minutes // 60} h ago"
    year = "" if then.year == present.year else f" {then.year}"
    return f"{then.day} {_MONTHS[then.month - 1]}{year}, {then:%H:%M}"


def _in_zone(moment: datetime | float, zone: tzinfo) -> datetime:
    if not isinstance(moment, datetime):
        return datetime.fromtimestamp(moment, zone)
    if moment.tzinfo is None:
        # A naive datetime would be read in the zone of the server, and be wrong by hours without notice.
        raise ValueError(f"must carry a time zone: {moment!r}")
    return moment.astimezone(zone)


def milliseconds(seconds: float) -> str:
    """Duration in words: `under 1 ms`, `7 ms`, `1.2 s`."""
    if seconds < 0.001:
        return "under 1 ms"
    # From 0.9995 s on, it would be rounded to "1000 ms".
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"
