"""Forms in which a phrase can be written without being another one."""

import json
from html import escape
from unicodedata import normalize

REWRITINGS = {
    "as it is": lambda text: text,
    "upper case": str.upper,
    "lower case": str.lower,
    "title": str.title,
    "decomposed": lambda text: normalize("NFD", text),
    "compatible": lambda text: normalize("NFKD", text),
    "full width": lambda text: "".join(chr(ord(c) + 0xFEE0) if "a" <= c.lower() <= "z" else c for c in text),
    "JSON": json.dumps,
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "named entities": lambda text: text.replace("é", "&eacute;").replace("'", "&apos;"),
    "decimal entities": lambda text: "".join(c if c.isascii() and c != "'" else f"&#{ord(c)};" for c in text),
    "hex entities": lambda text: "".join(c if c.isascii() and c != "'" else f"&#x{ord(c):x};" for c in text),
    "escaped HTML": escape,
    "quoted": lambda text: f"“{text}”",
    "in brackets": lambda text: f"({text})",
    "exclaimed": lambda text: f"{text}!!!",
    "Turkish capital": lambda text: text.replace("i", "İ"),
    **{f"apostrophe {c!r}": lambda text, c=c: text.replace("'", c) for c in "’‘ʼ′`´＇"},
    **{f"dash {c!r}": lambda text, c=c: text.replace("-", c) for c in "‐‑‒–—−"},
    **{f"space {c!r}": lambda text, c=c: text.replace(" ", c) for c in ("  ", "\n", "\t", "\u00a0", "\u2009", "\r\n")},
    **{f"in {c!r}": lambda text, c=c: f"{c}{text}{c}" for c in ("*", "**", "_", "~~", "`", "***")},
    **{f"each in {c!r}": lambda text, c=c: " ".join(f"{c}{w}{c}" for w in text.split()) for c in ("*", "**", "`")},
    "tagged": lambda text: f"<b>{text}</b>",
    "linked": lambda text: f"[{text}](https://site.example)",
    "list": lambda text: f"- {text}",
    "heading": lambda text: f"## {text}",
    "soft hyphens": lambda text: text.replace("n", "n\u00ad"),
    "zero-width spaces": lambda text: text.replace("e", "e\u200b"),
    "compound as one": lambda text: text.replace("-", ""),
    "compound as two": lambda text: text.replace("-", " "),
}
