"""What a secret is: every kind is masked, ordinary texts are not, and no text takes more than its share of time."""

import random
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.tracing.replacements import KEY_MASK, key_spans, mask_keys
from memory_inspector.coding.transcript import quotable
from memory_inspector.demo import conversations
from memory_inspector.wording.check_report import html_report

ROOT = Path(__file__).parent.parent
DICE = random.Random(11)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def random_text(length, signs=LETTERS + "0123456789"):
    """Nobody's key: put together here, so that no file of the repository has anything like one."""
    return "a7" + "".join(DICE.choice(signs) for _ in range(length - 4)) + "3Q"


HEX = random_text(32, "0123456789abcdef").lower().replace("q", "e")
UUID = f"{HEX[:8]}-{HEX[8:12]}-4{HEX[13:16]}-a{HEX[17:20]}-{HEX[20:]}"
BASE64 = random_text(40, LETTERS + "0123456789+/")
URLSAFE = random_text(43, LETTERS + "0123456789-_")
KEY = random_text(36)
DASHES, PRIVATE = "-" * 5, "PRIVATE" + " KEY"
PEM = "\n".join(random_text(64, LETTERS + "0123456789+/") for _ in range(4)) + "\nAB+/9k=="
WORD, PASSWORD = "swordfish", "hunter2s!cret"

# A text, and the secret in it; `{}` stands for the secret.
KINDS = {
    "environment": ("DB_PASSWORD={}", PASSWORD),
    "environment without a digit": ("DB_PASSWORD={}", WORD),
    "environment, quoted": ('export POSTGRES_PASSWORD="{}"', PASSWORD),
    "environment, with a comma": ("DB_PASSWORD={}", "ab,cd;ef12"),
    "environment, with a quote": ("DB_PASSWORD={}", "it's2nd"),
    "environment before a command": ("PGPASSWORD={} psql -h db", "tigertail"),
    "AWS secret": ("AWS_SECRET_ACCESS_KEY={}", BASE64),
    "AWS session": ("aws_session_token = {}", BASE64 + "=="),
    "UUID with a name": ("HEROKU_API_KEY={}", UUID),
    "hash with a name": ("DATADOG_API_KEY={}", HEX),
    "numbered name": ("API_KEY_2={}", "abc-123-def"),
    "Rails": ("SECRET_KEY_BASE={}", HEX * 4),
    "Dockerfile": ("ENV DB_PASSWORD {}", PASSWORD),
    "PowerShell": ('$env:API_TOKEN = "{}"', "ab12-cd34"),
    "JSON": ('{{"client_secret": "{}"}}', "ab-cd_efghij"),
    "JSON in JSON": ('"{{\\"password\\": \\"{}\\"}}"', WORD),
    "JSON with an escaped quote": ('{{"password": "{}"}}', 'pa\\"ss1word'),
    "JSON, camel case": ('{{"accessToken":"{}"}}', "ab12-cd34-ef56"),
    "JSON, name and value": ('{{"name": "DB_PASSWORD", "value": "{}"}}', WORD),
    "Docker's configuration": ('{{"auth": "{}"}}', "YW5hOnN3b3JkZmlzaA=="),
    "YAML": ("db_password: {}", WORD),
    "YAML, name and value": ("- name: DB_PASSWORD\n  value: {}", WORD),
    "YAML, block": ("password: |\n  {}", PASSWORD),
    "TOML": ("apiKey = '{}'", "ab12-cd34"),
    "ini": ("[db]\npassword = {}", WORD),
    "properties": ("spring.datasource.password={}", WORD),
    "XML": ("<password>{}</password>", WORD),
    "XML, attributes": ('<add key="Password" value="{}"/>', WORD),
    "Python": ('client = Client(api_key="{}")', "ab12cd34"),
    "Python, item": ('os.environ["DB_PASSWORD"] = "{}"', WORD),
    "Python, comparison": ('if password == "{}":', WORD),
    "Python, bytes": ("SECRET_KEY = b'{}'", "ab12cd34"),
    "Java, call": ('builder.setPassword("{}")', WORD),
    "hash rocket": ("password => '{}'", WORD),
    "command line": ("tool --password={} run", WORD),
    "command line, apart": ("tool --password {} run", WORD),
    "command line, token": ("tool --api-key {}", "ab12cd34"),
    "mysql": ("mysql -uroot -p{} shop", "s3cretw0rd"),
    "sshpass": ("sshpass -p '{}' ssh host", WORD),
    "docker login": ("docker login -u ana -p {} registry", PASSWORD),
    "redis-cli": ("redis-cli -h db -a {} ping", WORD),
    "curl -u": ("curl -s -u ana:{} https://host/x", WORD),
    "curl --user": ('curl --user "ana:{}" https://host/x', WORD),
    ".netrc": ("machine host login ana password {}", WORD),
    ".pgpass": ("db.host:5432:shop:ana:{}", WORD),
    ".npmrc": ("//registry.host/:_authToken={}", "npm-1234"),
    ".pypirc": ("username = __token__\npassword = pypi-{}", URLSAFE),
    "address": ("postgresql://ana:{}@db/shop", PASSWORD),
    "address without a user": ("redis://:{}@cache:6379", WORD),
    "address, any scheme": ("mongodb+srv://ana:{}@host", "p@ss/w0rd"),
    "address with a token": ("https://{}@github.com/ana/x.git", KEY),
    "query": ("https://host/x?user=a&access_token={}&b=1", "ab12cd34"),
    "connection string": ("Server=db;User Id=ana;Password={};Encrypt=yes", WORD),
    "Basic": ("Authorization: Basic {}", "YW5hOnN3b3JkZmlzaA=="),
    "Bearer, short": ("Authorization: Bearer {}", "abc-def"),
    "Bearer alone": ("with Bearer {} it works", "abc-123-def-456"),
    "Bearer in Python": ('headers={{"Authorization": f"Bearer {}"}}', "abc-def"),
    "header": ("curl -H 'X-Api-Key: {}' host", "ab-12-cd"),
    "cookie": ("Cookie: session={}", "abcdef; theme=dark"),
    "private key": (f"{DASHES}BEGIN {PRIVATE}{DASHES}\n{{}}\n{DASHES}END {PRIVATE}{DASHES}", PEM),
    "private key, cut off": (f"{DASHES}BEGIN OPENSSH {PRIVATE}{DASHES}\n{{}}\n", PEM),
    "private key in JSON": (f'"{DASHES}BEGIN RSA {PRIVATE}{DASHES}\\n{{}}\\n"', PEM.replace("\n", "\\n")),
    "PGP": (f"{DASHES}BEGIN PGP {PRIVATE} BLOCK{DASHES}\n\n{{}}\n{DASHES}END PGP {PRIVATE} BLOCK{DASHES}", PEM),
    "age": ("AGE-SECRET-" + "KEY-1{}", random_text(58).upper()),
    "SSH key's line": ("{}", random_text(64, LETTERS + "0123456789+/")),
    "OpenAI": ("key sk-" + "proj-{}", URLSAFE),
    "Anthropic": ("sk-ant-" + "api03-{}", URLSAFE),
    "GitHub": ("ghp" + "_{}", KEY),
    "GitHub, fine-grained": ("github" + "_pat_{}", KEY + "_" + KEY),
    "GitLab": ("glpat" + "-{}", KEY[:20]),
    "Slack": ("xoxb" + "-123456789012-{}", KEY),
    "Slack's hook": ("https://hooks.slack" + ".com/services/{}", "T0A1/B0B2/" + KEY),
    "Discord's hook": ("https://discord.com/api/web" + "hooks/123456789012345/{}", URLSAFE),
    "Stripe": ("sk" + "_live_{}", KEY[:24]),
    "Google": ("AI" + "za{}", URLSAFE[:35]),
    "Google OAuth": ("ya29" + ".{}", URLSAFE),
    "Hugging Face": ("hf" + "_{}", KEY),
    "npm": ("npm" + "_{}", KEY),
    "PyPI": ("pypi" + "-{}", URLSAFE * 2),
    "SendGrid": ("SG" + ".{}", URLSAFE[:22] + "." + URLSAFE),
    "Twilio": ("SK" + "{}", HEX),
    "Telegram": ("bot123456789" + ":AA{}", URLSAFE[:33]),
    "AWS id": ("AKIA" + "{}", random_text(16).upper()),
    "Azure storage": ("AccountName=x;Account" + "Key={};EndpointSuffix=y", BASE64 + BASE64 + "=="),
    "Azure SAS": ("https://x.blob/y?sv=2024&sig={}&se=1", "ab%2Bcd%3D12"),
    "JWT": ("{}", "eyJ" + KEY + ".eyJ" + KEY + "." + URLSAFE),
    "Groq": ("gsk" + "_{}", KEY),
    "DigitalOcean": ("dop_" + "v1_{}", HEX + HEX),
    "Shopify": ("shpat" + "_{}", HEX),
    "Databricks": ("dapi" + "{}", HEX),
    "Vault": ("hvs" + ".{}", URLSAFE),
    "password's hash": ("root:{}:19000:0", "$6$" + KEY[:8] + "$" + KEY),
    "our token": ("{}", "mi_" + URLSAFE),
    "our token in an address": ("OPENAI_BASE_URL=http://host/record/{}/s/v1", "mi_" + URLSAFE),
    "no form and no name": ("it is {} now", KEY),
    "said": ("my password is {}.", "hunter2"),
    "said, quoted": ("the password for staging is “{}”", WORD),
    "said, with a colon": ("Password: {}", WORD),
    "said, in bold": ("**Password:** {}", WORD),
    "said, in the next line": ("The token:\n{}", "ab12cd34"),
    "said in German": ("Das Passwort ist {}", PASSWORD),
    "said in Chinese": ("密码：{}", PASSWORD),
    "passphrase of words": ('passphrase: "{}"', "correct horse battery staple"),
    "said, with a dash": ("password – {}", PASSWORD),
    "said, with a comma": ("the password, {}, works", PASSWORD),
    "said, as a change": ("Password changed to {}", PASSWORD),
    "camel case, short": ('adminPwd = "{}"', WORD),
    "PIN": ("PIN: {}", "4711"),
    "table": ("| password | {} |", PASSWORD),
    "broken by a terminal": ("sk-" + "proj-{}", URLSAFE[:30] + "\n" + URLSAFE[30:] + "Zz9"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_secret_is_masked(kind):
    form, secret = KINDS[kind]
    masked = mask_keys(form.format(secret))
    # Not a part of it either, but what another part of the text has.
    assert not [part for part in re.findall(r"[^\s]{4,}", secret) if part in masked], masked
    assert KEY_MASK in masked
    around = (
        mask_keys(f"He wrote: {form.format(secret)}\nand more.") if "\n" not in form and "{}:19" not in form else masked
    )
    assert secret not in around or kind == ".pgpass"


@pytest.mark.parametrize(
    "text",
    [
        "the password: ask Ana",
        "My password is on the desk.",
        "The password is wrong.",
        "I forgot my password, and the token limit is 4000.",
        "password = get_password()",
        "password: str",
        "def sign_in(user: str, password: str = '', token: Token | None = None):",
        "connect(user=user, password=password, token=self.token)",
        "token_limit=4000, max_tokens: 500",
        'secret = os.environ["X"]',
        "const key = process.env.API_KEY",
        "keyboard: qwerty",
        "tokens: 1200",
        f"commit {HEX}{HEX[:8]} of {UUID}",
        f"sha256:{HEX}{HEX}",
        "PASSWORD=<password>, PASSWORD=***, PASSWORD=${PASSWORD} and PASSWORD=$DB_PASSWORD",
        "api_key: xxxx, api_key=your-key-here, token: '...', secret: [redacted], token=%TOKEN%",
        "password: ${{ secrets.DB_PASSWORD }}",
        "POSTGRES_PASSWORD_FILE=/run/secrets/password",
        "Enter your password: ",
        '"password": "Enter your password"',
        "postgres://user:password@localhost/db",
        "http://localhost:8501/?session=s&turn=3",
        "docker run -u 1000:1000 image",
        "text-embedding-3-small, claude-sonnet-4-5-20250929 and gpt-4o-mini-2024-07-18",
        "tests/test_file.py:1234:5: E501 line too long",
        "The Bearer token of Basic authentication is missing.",
        "PWD=/srv/ana/project",
    ],
)  # fmt: skip
def test_what_only_speaks_of_secrets_is_not_masked(text):
    assert mask_keys(text) == text


def ordinary_texts():
    """2,000 paragraphs and lines of our own: documents, code, benchmarks, and what is said in the demo."""
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.json")]
    sources = [
        path
        for shelf in ("memory_core", "memory_inspector", "ui", "benchmarks")
        for path in ROOT.glob(f"{shelf}/**/*.py")
    ]
    texts = [
        text.strip()
        for paths, mark in ((documents, "\n\n"), (sources, "\n"), ([Path(conversations.__file__)], "\n"))
        for path in sorted(paths)
        for text in path.read_text(encoding="utf-8").split(mark)
        if 20 < len(text) < 5_000
    ]
    return random.Random(3).sample(texts, 2_000)


def test_hardly_any_ordinary_text_is_masked():
    masked = [text for text in ordinary_texts() if mask_keys(text) != text]
    assert len(masked) <= 10, masked


def test_a_quote_that_ends_within_a_key_has_no_half_of_it():
    text = "a " * 10 + f"password={'ab1' * 40} " + "sk-" + "proj-" + KEY
    assert "sk-" not in quotable(text, most=(len(text) - 30) // 20)


def test_the_explanation_in_a_report_is_masked_as_the_pages_are():
    assert KEY not in html_report([(f"test of {KEY}", f"“{KEY}” is not in the prompt.\nNever said: {KEY}.", "<p>")])


# -- properties ----------------------------------------------------------------------------------------

SIGNS = """password token api_key secret = : is " ' \\ :// @ , ) [key] [ ] < > { } hunter2 sk- mi_ eyJ . PRIVATE curl -u
-----BEGIN KEY----- Bearer Authorization: $6$ value abc123def456 … İ 密码"""
PIECES = st.sampled_from([*SIGNS.split(), " ", " ", "\n", URLSAFE, HEX, "PRIVATE KEY-----"]) | st.text(max_size=6)


@pytest.mark.slow
@given(st.lists(PIECES, max_size=14).map("".join))
def test_what_is_masked_once_stays_as_it_is_and_nothing_else_changes(text):
    masked = mask_keys(text)
    assert mask_keys(masked) == masked
    spans = key_spans(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(end < start for (_, end), (start, _) in pairwise(spans))
    ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)]
    assert masked == KEY_MASK.join(text[start:end] for start, end in zip(*ends, strict=True))


# -- time ----------------------------------------------------------------------------------------------

PATHOLOGICAL = [
    *("a", "A1", "a_", "Ab3", "://", "://a:", "'", '"', "password", "password:", "password=", 'password="'),
    *("password is ", "sk-", "sk-a", "mi_", "eyJaaaaaaaa.", "AKIA.", "token=1", "key", "api_key,", "Bearer ", "curl "),
    *(f"{DASHES}BEGIN {PRIVATE}{DASHES}", f"{DASHES}BEGIN {PRIVATE}{DASHES}\\n", "mysql -", "Authorization: "),
    *("cookie=", "$6$", "login a ", "a:1234:", "\\", "\n", "Ab3dEf6hIj9lMn2pQr5t\n", "@", "(", "[key]", "-", ";a"),
]


def seconds(text):
    """Time of this process that masking takes, at best of three."""
    times = []
    for _ in range(3):
        begin = time.process_time()
        mask_keys(text)
        times.append(time.process_time() - begin)
    return min(times)


@pytest.mark.slow
@pytest.mark.parametrize("piece", PATHOLOGICAL)
def test_four_times_the_text_takes_some_four_times_as_long(piece):
    # Squared it would be sixteen times; the whole machine may be busy, but with both in turn.
    needles = "PRIVATE KEY @ : uthorization earer asic ookie url -p -a login eyJ $ hook "
    shorter = seconds(needles + piece * (100_000 // len(piece)))
    assert seconds(needles + piece * (400_000 // len(piece))) < 10 * max(shorter, 0.005)


@pytest.mark.slow
def test_one_key_like_word_of_ten_megabytes_is_masked():
    assert mask_keys("x " + "aB3" * 3_400_000) == f"x {KEY_MASK}"
    assert mask_keys(f"password={'ab' * 2_500_000}") == f"password={KEY_MASK}"
    assert mask_keys("A" * 10_000_000) == "A" * 10_000_000
