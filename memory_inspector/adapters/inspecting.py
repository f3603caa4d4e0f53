"""The inspector as read-only MCP tools: a coding agent can ask why its memory lacked something."""

from memory_core.errors import NotFoundError
from memory_core.history.slices.contexts import context_of
from memory_core.memory import Memory
from memory_core.services import Services
from memory_core.sessions.overview import list_sessions
from memory_core.store.database import Database
from memory_inspector.reading_tools import NUMBER, PHRASE, TEXT, ReadingTools, tool_spec

_SESSION = {"session": TEXT | {"description": "id of a session; the one used last without it"}}
_TURN = {"turn": NUMBER | {"description": "turn of the prompt looked at; the latest without it"}}


SPECS = (
    tool_spec("list_sessions", "Sessions of this memory, the one used last first.", {}),
    tool_spec(
        "why",
        "Why a prompt held or did not hold something, in one sentence with rule and number.",
        PHRASE,
        _TURN,
        _SESSION,
    ),
    tool_spec(
        "trace", "Every stage that something went through, from who said it to the prompt.", PHRASE, _TURN, _SESSION
    ),
    tool_spec("prompt_at", "The prompt of a turn, word for word, with what was cut from it.", {}, _TURN, _SESSION),
    tool_spec("search_facts", "Facts that fit a question, best first.", {"query": TEXT}, _SESSION),
)


class InspectingTools(ReadingTools):
    """The inspector's tools over one database."""

    specs = SPECS

    def __init__(self, database: Database, services: Services) -> None:
        self._database = database
        self._services = services
        self._tools = {
            "list_sessions": self._list_sessions,
            "why": self._why,
            "trace": self._trace,
            "prompt_at": self._prompt_at,
            "search_facts": self._search_facts,
        }

    def _memory(self, session: str | None) -> Memory:
        session_ids = [status.session_id for status in list_sessions(self._database)]
        if not session_ids:
            raise NotFoundError("This database holds no session yet.")
        if session is not None and session not in session_ids:
            raise NotFoundError(f'There is no session "{session[:60]}": list_sessions names them.')
        return Memory.open(session or session_ids[0], self._database, services=self._services)

    def _list_sessions(self) -> str:
        return "\n".join(
            f"{status.session_id}: {status.title or 'untitled'}, {status.turns} turns"
            for status in list_sessions(self._database)
        )

    def _why(self, phrase: str, turn: int | None = None, session: str | None = None) -> str:
        trace = self._memory(session).trace(phrase, turn=turn)
        return " ".join(filter(None, [trace.origin, trace.sentence]))

    def _trace(self, phrase: str, turn: int | None = None, session: str | None = None) -> str:
        trace = self._memory(session).trace(phrase, turn=turn)
        prompt = "" if trace.prompt_turn is None else f"As of the prompt of turn {trace.prompt_turn}. "
        lines = [f"{prompt}{trace.origin}".strip()]
        for number, track in enumerate(trace.tracks, 1):
            lines.append(f"{number}. {track.carrier.kind} {track.carrier.block or ''}".rstrip() + ":")
            lines += [f"   {stage.name}: {stage.text}" for stage in track.stages]
        return "\n".join([*lines, trace.sentence]).strip()

    def _prompt_at(self, turn: int | None = None, session: str | None = None) -> str:
        memory = self._memory(session)
        turns = memory.log.history().turns
        built = [number for number, record in turns.items() if record.built is not None and turn in (None, number)]
        if not built:
            raise NotFoundError(f"No prompt of turn {turn} is on record." if turn else "No prompt is on record yet.")
        record = turns[max(built)].built
        assert record is not None
        prompt = memory.log.prompt(record)
        event = context_of(record)
        head = f"Turn {max(built)}: {event.total:,} of {event.token_limit:,} tokens."
        cuts = [f"cut from {cut['part']}: {cut['tokens']:,} tokens, {cut['rule']}" for cut in event.cuts]
        return "\n".join([head, *cuts, *(str(message) for message in prompt.messages)])

    def _search_facts(self, query: str, session: str | None = None) -> str:
        hits = self._memory(session).facts.search(query)
        lines = [f"{hit.score:.2f} {hit.fact.text} (turn {hit.fact.turn})" for hit in hits]
        return "\n".join(lines) or "No fact fits."
