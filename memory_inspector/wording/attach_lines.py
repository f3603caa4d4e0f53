"""Lines that point each program at the recording proxy, as `tests/real_agents` tries it; `{url}` is its address."""

from collections.abc import Mapping

ANY = "OpenAI's or Anthropic's clients"
"""The lines for programs that are not named."""

LINES: Mapping[str, tuple[str, str]] = {
    ANY: ("bash", "export OPENAI_BASE_URL={url}/v1\nexport ANTHROPIC_BASE_URL={url}"),
    "Claude Code": ("bash", "export ANTHROPIC_BASE_URL={url}"),
    "Codex": ("toml", '# ~/.codex/config.toml, or codex -c\nopenai_base_url = "{url}/v1"'),
    "Gemini CLI": ("bash", "export GOOGLE_GEMINI_BASE_URL={url}"),
    "Copilot CLI": (
        "bash",
        "export COPILOT_PROVIDER_BASE_URL={url}/v1\nexport COPILOT_PROVIDER_API_KEY=KEY\nexport COPILOT_MODEL=MODEL",
    ),
    "Qwen Code": ("bash", "export OPENAI_BASE_URL={url}/v1\nexport OPENAI_API_KEY=KEY\nexport OPENAI_MODEL=MODEL"),
    "Cline": ("bash", "cline auth -p openai-compatible -k KEY -m MODEL -b {url}/v1"),
    "OpenCode": (
        "json",
        '// ~/.config/opencode/opencode.json, then: opencode -m wire/MODEL\n{"provider": {"wire": {'
        '"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "{url}/v1", "apiKey": "KEY"},'
        '\n  "models": {"MODEL": {}}}}}',
    ),
    "pi": (
        "json",
        '// ~/.pi/agent/models.json, then: pi --provider wire --model MODEL\n{"providers": {"wire": {'
        '"baseUrl": "{url}/v1", "api": "openai-completions", "apiKey": "KEY",\n  "models": [{"id": "MODEL"}]}}}',
    ),
}
"""Language and lines by program."""


def lines_for(program: str, url: str) -> tuple[str, str]:
    """Return the language and the lines that send a program's calls to `url`."""
    language, lines = LINES[program]
    return language, lines.replace("{url}", url)
