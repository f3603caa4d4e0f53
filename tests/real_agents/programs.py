"""The eight pinned programs: how each is installed, pointed at an endpoint, and asked without a screen.

Each runs in a home of its own with an almost empty environment. Nothing of the user's is read or written.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shared_data import READY

RULES = "Indent with tabs only."
"""Text of the file of instructions that each program finds in the folder it works in."""
NODE = "26.10.0"
SECONDS = 400
"""Seconds that one turn of a program may take."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program and its arguments; `{url}`, `{key}` and `{words}` in them are filled in for each turn."""

    name: str
    package: str
    version: str
    first: Sequence[str]
    """Arguments of the first turn; `next` those of a later one in the same conversation."""
    next: Sequence[str] = ()
    compact: Sequence[str] = ()
    """Arguments that compact the conversation; empty: only a full window does (`BIG:`), or none is known."""
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Files in its home, by path."""
    before: Sequence[str] = ()
    """Arguments of a command that sets it up."""
    unwritten: Sequence[str] = ()
    """Words of its prompts that it does not write into its session, as they stand in the system prompt."""
    sessions: str = ""
    """Where it keeps its sessions, as a pattern below its home."""

    def binary(self, below: Path) -> Path:
        return below / self.name / "node_modules" / ".bin" / self.name

    def settle(self, home: Path, below: Path, url: str) -> None:
        """Write its configuration into an empty home."""
        (home / "work").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(home / "work")], check=True)
        (home / "work" / "notes.txt").write_text("The kiln stays at 900 degrees.\n")
        for name, text in self.files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("{url}", url))
        if self.before:
            self.run(self.before, home, below, url)

    def run(self, arguments: Sequence[str], home: Path, below: Path, url: str, words: str = "") -> str:
        """Run it once; return what it printed."""
        filled = [argument.replace("{words}", words).replace("{url}", url) for argument in arguments]
        paths = [below / "node" / "node_modules" / ".bin", Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin")]
        environment = {"HOME": str(home), "PATH": os.pathsep.join(map(str, paths)), "LANG": "C.UTF-8", "TERM": "dumb"}
        environment |= {name: value.replace("{url}", url) for name, value in self.environment.items()}
        done = subprocess.run(
            [str(self.binary(below)), *filled],
            cwd=home / "work",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            text=True,
            errors="replace",
            check=False,
        )
        return done.stdout


_MODELS = (
    '"models": {"scripted": {"name": "Scripted", "tool_call": true, "limit": {"context": 100000, "output": 4000}}}'
)

PROGRAMS = (
    Program(
        "claude", "@anthropic-ai/claude-code", "2.1.332",
        ["-p", "--dangerously-skip-permissions", "{words}"],
        ["-p", "--dangerously-skip-permissions", "--continue", "{words}"],
        ["-p", "--continue", "/compact"],
        {
            "ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "x", "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        {"work/CLAUDE.md": f"{RULES}\n"},
        sessions=".claude/projects/*/*.jsonl",
    ),
    Program(
        "codex", "@openai/codex", "0.171.0",
        ["exec", "-s", "danger-full-access", "--skip-git-repo-check", "{words}"],
        ["exec", "-s", "danger-full-access", "--skip-git-repo-check", "resume", "--last", "{words}"],
        (),
        {"CODEX_API_KEY": "x"},
        {
            ".codex/config.toml": 'openai_base_url = "{url}/v1"\nmodel_auto_compact_token_limit = 100000\n'
            'check_for_update_on_startup = false\n[analytics]\nenabled = false\n',
            "work/AGENTS.md": f"{RULES}\n",
        },
        sessions=".codex/sessions/*/*/*/*.jsonl",
    ),
    Program(
        "gemini", "@google/gemini-cli", "0.61.0",
        ["-y", "-m", "gemini-2.5-pro", "-p", "{words}"],
        ["-y", "-m", "gemini-2.5-pro", "--resume", "latest", "-p", "{words}"],
        ["-y", "-m", "gemini-2.5-pro", "--resume", "latest", "-p", "/compress"],
        {
            "GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "x", "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "NO_BROWSER": "1",
        },
        {
            ".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}, '
            '"privacy": {"usageStatisticsEnabled": false}, "general": {"disableAutoUpdate": true}}',
            "work/GEMINI.md": f"{RULES}\n",
        },
        sessions=".gemini/tmp/*/chats/session-*",
    ),
    Program(
        "pi", "@mariozechner/pi-coding-agent", "0.73.1",
        ["--offline", "--provider", "wire", "--model", "scripted", "-p", "{words}"],
        ["--offline", "--provider", "wire", "--model", "scripted", "--continue", "-p", "{words}"],
        (),
        {},
        {
            ".pi/agent/models.json": '{"providers": {"wire": {"baseUrl": "{url}/v1", "api": "openai-completions", '
            '"apiKey": "x", "models": [{"id": "scripted", "contextWindow": 100000, "maxTokens": 4000}]}}}',
            "work/AGENTS.md": f"{RULES}\n",
        },
        unwritten=[RULES],
        sessions=".pi/agent/sessions/*/*.jsonl",
    ),
    Program(
        "opencode", "opencode-ai", "1.18.33",
        ["run", "-m", "wire/scripted", "{words}"],
        ["run", "-m", "wire/scripted", "--continue", "{words}"],
        (),
        {
            "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        },
        {
            ".config/opencode/opencode.json": '{"permission": "allow", "provider": {"wire": {"npm": '
            '"@ai-sdk/openai-compatible", "options": {"baseURL": "{url}/v1", "apiKey": "x"}, ' + _MODELS + "}}}",
            "work/AGENTS.md": f"{RULES}\n",
        },
        unwritten=[RULES],
        sessions=".local/share/opencode/opencode.db",
    ),
    Program(
        "copilot", "@github/copilot", "1.0.102",
        ["--allow-all-tools", "-p", "{words}"],
        ["--allow-all-tools", "--continue", "-p", "{words}"],
        (),
        {
            "COPILOT_OFFLINE": "1", "COPILOT_PROVIDER_BASE_URL": "{url}/v1", "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "scripted", "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "100000",
        },
        {"work/AGENTS.md": f"{RULES}\n"},
        sessions=".copilot/session-state/*/events.jsonl",
    ),
    Program(
        "qwen", "@qwen-code/qwen-code", "0.24.4",
        ["-y", "-p", "{words}"],
        ["-y", "--continue", "-p", "{words}"],
        ["-y", "--continue", "-p", "/compress"],
        {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "x", "OPENAI_MODEL": "scripted"},
        {
            ".qwen/settings.json": '{"security": {"auth": {"selectedType": "openai"}}, '
            '"privacy": {"usageStatisticsEnabled": false}, "general": {"disableAutoUpdate": true}}',
            "work/QWEN.md": f"{RULES}\n",
        },
        unwritten=[RULES],
        sessions=".qwen/projects/*/chats/*.jsonl",
    ),
    Program(
        "cline", "cline", "3.0.65",
        ["{words}"],
        before=["auth", "-p", "openai-compatible", "-k", "x", "-m", "scripted", "-b", "{url}/v1"],
        environment={"CLINE_NO_AUTO_UPDATE": "1"},
        files={"work/AGENTS.md": f"{RULES}\n"},
        unwritten=[RULES],
        sessions=".cline/data/sessions/*/*.messages.json",
    ),
)  # fmt: skip


def installed(into: Path, program: Program) -> Path:
    """Return the folder that holds the program: a ready one, or `into`, where npm installs it and Node."""
    if (ready := os.environ.get(READY, "npm")) != "npm":
        return Path(ready)
    for name, package in (("node", f"node@{NODE}"), (program.name, f"{program.package}@{program.version}")):
        if not (into / name).is_dir():
            (into / name).mkdir(parents=True)
            npm = ["npm", "install", "--silent", "--no-fund", "--no-audit", package]
            subprocess.run(npm, cwd=into / name, check=True, timeout=900)
    return into
