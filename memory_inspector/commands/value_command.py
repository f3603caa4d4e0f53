"""Command line of `memory-inspector value`: does a memory help on a conversation, and what does it cost?"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memory_core.errors import FormatError
from memory_core.models.protocols import ChatModel
from memory_core.services import Services
from memory_core.text import printable
from memory_inspector.lab.checking import read_recorded, read_variant
from memory_inspector.lab.playing import Player
from memory_inspector.lab.questions import read_questions
from memory_inspector.lab.value import value_of


def add_commands(commands: Any) -> None:
    """Add the command to the subparsers of a parser."""
    valuing = commands.add_parser("value", help="compare a memory with no memory, and with each of its blocks alone")
    valuing.add_argument("conversation", help="a session's bundle, or messages in any format that can be imported")
    valuing.add_argument("--config", help="a configuration; the session's own without it")
    valuing.add_argument(
        "--questions", metavar="FILE", help="a text file with a line for each question: question -> words of evidence"
    )
    valuing.add_argument("--endpoint", metavar="URL", help="let a model answer, at this OpenAI-compatible address")
    valuing.add_argument("--model", metavar="NAME", help="the model at that address")
    valuing.add_argument("--json", metavar="FILE", help="also write every score and answer into this file")
    valuing.set_defaults(run=_value)


def _value(options: argparse.Namespace) -> int:
    if (options.endpoint is None) != (options.model is None):
        raise FormatError("Give both --endpoint and --model, or neither to score prompts without a model.")
    questions = read_questions(_text(options.questions)) if options.questions else ()
    services = Services()
    recorded = read_recorded(options.conversation, services)
    variant = read_variant(options.config) if options.config else recorded.variant
    if variant is None:
        raise FormatError(f"{Path(options.conversation).name} holds only messages: name a configuration with --config.")
    result = value_of(
        Player(services),
        recorded.script,
        variant,
        questions,
        model=_model(options),
        progress=lambda line: print(printable(line), file=sys.stderr),
    )
    assert result is not None  # never None: it cannot be cancelled
    print(result.table())
    if options.json is not None:
        try:
            Path(options.json).write_text(json.dumps(asdict(result), ensure_ascii=False, indent=2), encoding="utf-8")
        except OSError as error:
            raise FormatError(f"{options.json} cannot be written: {error.strerror or error}.") from error
    return 0


def _model(options: argparse.Namespace) -> ChatModel | None:
    if options.endpoint is None:
        return None
    from memory_core.models.openai_client import OpenAIChat  # loads the client, which takes a second

    return OpenAIChat(options.model, options.endpoint)


def _text(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FormatError(f"{name} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{name} is not a text in UTF-8.") from error
