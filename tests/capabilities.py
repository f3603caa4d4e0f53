"""The product by capability, each with a budget of lines: `python -m tests.house` prints what each takes.

A module belongs to the first capability that names it. Comments do not count: they are asked for, and a limit on them
would be met by leaving them out. A change that needs more lines takes them from its own capability, or says in its
message from which one, and moves both numbers here.
"""

from collections import Counter
from fnmatch import fnmatch

from tests.house import PRODUCT, files, uncommented

CAPABILITIES = {
    "Values of messages, tokens, errors and limits": (
        1_720,
        "memory_core/__init__.py memory_core/messages.py memory_core/tokens.py memory_core/errors.py "
        "memory_core/limits.py memory_core/text.py memory_core/process.py memory_core/argument_checks.py",
    ),
    "Face of the engine, configuration, services": (
        3_220,
        "memory_core/memory.py memory_core/config.py memory_core/services.py memory_core/sessions/handle.py "
        "memory_core/sessions/__init__.py memory_core/engine/__init__.py memory_core/engine/session.py "
        "memory_core/engine/reconcile.py memory_core/sessions/overview.py memory_core/curation/__init__.py "
        "memory_core/curation/settings.py memory_core/curation/block_desks.py",
    ),
    "Queue, flush, deliveries": (
        2_120,
        "memory_core/engine/queue.py memory_core/engine/delivery.py "
        "memory_core/planning/flush.py memory_core/planning/speakers.py "
        "memory_core/store/message_rows.py memory_core/store/delivery_rows.py "
        "memory_core/sessions/recorded_conversation.py",
    ),
    "Context, its plan and past prompts": (
        2_540,
        "memory_core/engine/context.py memory_core/engine/next_prompt.py memory_core/planning/__init__.py "
        "memory_core/planning/context_plan.py memory_core/planning/rendering.py memory_core/planning/core_memory.py "
        "memory_core/history/context_pieces.py memory_core/history/prompt*.py memory_core/sessions/preview.py",
    ),
    "Log, its events and what is rebuilt from it": (
        3_740,
        "memory_core/events.py memory_core/history/*_slice.py memory_core/history/learned_slices.py "
        "memory_core/history/contexts.py memory_core/history/projection.py memory_core/history/__init__.py "
        "memory_core/history/by_turn.py memory_core/history/log.py "
        "memory_core/history/change_log.py memory_core/history/usage.py "
        "memory_core/history/stores.py memory_core/store/log_rows.py",
    ),
    "Store: tables, transactions, SQLite and PostgreSQL": (
        3_230,
        "memory_core/store/__init__.py memory_core/store/database.py memory_core/store/tables.py "
        "memory_core/store/writing.py memory_core/store/direct_statements.py memory_core/store/leases.py "
        "memory_core/store/totals.py memory_core/store/block_rows.py "
        "memory_core/store/postgresql.py memory_core/store/migrations/*.py "
        "memory_core/store/migrations/versions/*.py",
    ),
    "Bundles, branches, archives, backups": (
        3_140,
        "memory_core/bundles/*.py memory_core/store/copying/*.py memory_core/sessions/branch.py",
    ),
    "Forgetting with a receipt, erasing": (
        3_260,
        "memory_core/store/erasing.py memory_core/store/phrase_forgetting.py memory_core/store/text_erasing.py "
        "memory_inspector/verification/*.py "
        "memory_core/sessions/forgetting.py ui/parts/forgetting.py "
        "memory_inspector/server/forget_receipt.py "
        "memory_core/planning/impact.py memory_core/planning/phrase_matching.py",
    ),
    "Quarantine and former values": (
        990,
        "memory_core/planning/quarantine.py memory_core/store/quarantine_rows.py "
        "memory_core/planning/former_values.py memory_core/store/former_rows.py memory_core/blocks/former_marks.py",
    ),
    "Retention, health, metrics, upkeep": (
        1_760,
        "memory_inspector/upkeep/__init__.py memory_inspector/upkeep/damage.py memory_inspector/upkeep/health.py "
        "memory_inspector/upkeep/maintenance.py memory_inspector/upkeep/retention.py "
        "memory_inspector/server/metrics.py ui/sessions/health.py",
    ),
    "People: roles, tenants, sign-in, tokens": (
        820,
        "memory_core/access.py memory_core/store/tenants.py memory_inspector/upkeep/agents.py "
        "memory_inspector/server/people.py memory_inspector/reading/write_access.py ui/tab/people.py",
    ),
    "Blocks: base, fixed text, plug-ins": (
        1_380,
        "memory_core/blocks/__init__.py memory_core/blocks/base.py "
        "memory_core/blocks/nothing_learned.py memory_core/blocks/plugins.py "
        "memory_core/blocks/static.py memory_core/planning/learning_outcomes.py",
    ),
    "Facts: learning, comparing, searching": (
        3_350,
        "memory_core/blocks/facts.py memory_core/blocks/fact_search.py memory_core/blocks/learned_facts.py "
        "memory_core/planning/consolidation.py memory_core/planning/fact_merging.py "
        "memory_core/planning/slots.py memory_core/planning/statement_relation.py memory_core/store/fact_rows.py",
    ),
    "Facts: curation and its undo": (
        2_360,
        "memory_core/curation/change_sets.py memory_core/curation/fact_*.py memory_core/curation/known_facts.py "
        "memory_core/planning/curation.py memory_core/history/fact_evidence.py",
    ),
    "Page Facts": (
        3_430,
        "ui/facts/*.py memory_inspector/reading/fact_*.py memory_inspector/wording/decision_text.py "
        "ui/parts/facts_limit.py",
    ),
    "Vectors: block, units, indexes": (
        5_540,
        "memory_core/blocks/vector.py memory_core/blocks/packing.py memory_core/blocks/storing.py "
        "memory_core/blocks/unit*.py memory_core/vectors/*.py "
        "memory_core/planning/retrieval_plan.py memory_core/store/vector_rows.py "
        "memory_core/store/derived_files.py "
        "memory_core/models/embedding.py memory_core/models/static_embedding.py",
    ),
    "Summary": (
        1_090,
        "memory_core/blocks/summary.py memory_core/planning/running_summary.py memory_core/models/summarising.py "
        "memory_inspector/wording/block_text.py",
    ),
    "Graph: block, relations, desk": (
        2_680,
        "memory_core/blocks/graph.py memory_core/planning/graph_*.py memory_core/store/graph_rows.py "
        "memory_core/curation/graph_*.py memory_core/models/relating.py",
    ),
    "Page Graph": (
        2_230,
        "ui/graph/*.py memory_inspector/figures/graph_*.py "
        "memory_inspector/reading/graph_neighbourhood.py memory_inspector/files/graph_files.py",
    ),
    "Models: clients and what they are asked": (1_910, "memory_core/models/*.py"),
    "Offline rules": (3_780, "memory_core/models/offline/*.py"),
    "Recipes, memory systems, self-editing agent": (
        3_310,
        "memory_core/recipes.py memory_core/systems/*.py memory_core/agent/*.py memory_core/sessions/switch_recipe.py "
        "ui/blocks/recipe_section.py memory_inspector/reading/recipe_rows.py",
    ),
    "Formats of messages": (1_340, "memory_core/formats/*.py"),
    "Trace and its fixes, watched, overlooked": (
        5_950,
        "memory_core/tracing/*.py ui/trace/*.py memory_inspector/wording/trace_text.py ui/parts/watching.py "
        "ui/parts/probing.py ui/parts/overlooked.py ui/parts/struck.py memory_inspector/reading/forgotten.py",
    ),
    "Saved page and notebooks": (
        430,
        "memory_inspector/notebook/*.py ui/parts/saved_page.py",
    ),
    "Retrieval: search explained, and its page": (
        2_700,
        "memory_core/retrieval/*.py ui/retrieval/*.py memory_inspector/reading/search_*.py ",
    ),
    "Recorder: proxy and spans": (4_750, "memory_inspector/recorder/*.py memory_inspector/wording/attach_lines.py"),
    "Files and other programs' stores": (
        5_570,
        "memory_inspector/files/*.py memory_inspector/files/stores/*.py ui/sessions/session_files.py ",
    ),
    "Adapters and MCP": (2_280, "memory_inspector/adapters/*.py memory_inspector/reading_tools.py"),
    "Sessions of coding agents": (
        6_600,
        "memory_inspector/coding/*.py ui/coding/*.py memory_inspector/figures/coding_figures.py "
        "memory_inspector/wording/coding_text.py memory_inspector/reading/coding_homes.py "
        "memory_inspector/server/coding_sessions.py memory_inspector/commands/code_command.py",
    ),
    "Lab: play, plan, sweep, lint": (
        5_840,
        "memory_inspector/lab/__init__.py memory_inspector/lab/playing.py memory_inspector/lab/replanning.py "
        "memory_inspector/lab/sizes.py memory_inspector/lab/script.py "
        "memory_inspector/lab/striking.py memory_inspector/lab/sweep*.py memory_inspector/lab/comparing.py "
        "memory_inspector/lab/variants.py memory_inspector/lab/linting.py "
        "memory_inspector/figures/lab_figures.py ui/lab/__init__.py ui/lab/lab_page.py "
        "ui/lab/planned.py ui/lab/playing.py ui/lab/sweeping.py ui/lab/tried_variants.py",
    ),
    "Probes, value, failure patterns, CI": (
        3_100,
        "memory_inspector/lab/*.py ui/lab/*.py memory_inspector/commands/probe_commands.py "
        "memory_inspector/pytest_plugin.py "
        "memory_inspector/wording/check_report.py ui/context/ablation.py",
    ),
    "Checks for your own parts, simulation": (1_450, "memory_inspector/checks/*.py"),
    "Page Chat, the demo, a turn's story": (
        2_240,
        "ui/chat/*.py memory_inspector/demo/*.py memory_inspector/server/chat_turns.py "
        "memory_inspector/wording/story.py "
        "memory_inspector/server/shipped_demo.py ui/parts/flushing.py "
        "memory_inspector/wording/tool_call_text.py",
    ),
    "Page Context": (
        1_910,
        "ui/context/*.py memory_inspector/figures/prompt_figure.py memory_inspector/wording/prompt_text.py "
        "memory_inspector/figures/budget_lanes.py ui/parts/budget_card.py ui/parts/effect.py",
    ),
    "Page Timeline and the sentences of events": (
        3_680,
        "ui/timeline/*.py memory_inspector/wording/event_sentences/*.py memory_inspector/wording/event_details.py "
        "memory_inspector/reading/event_*.py "
        "memory_inspector/reading/turn_series.py "
        "memory_inspector/reading/outcomes.py "
        "memory_inspector/figures/timeline_figures.py",
    ),
    "Page Blocks and settings": (
        2_430,
        "ui/blocks/*.py ui/settings_drawer.py memory_inspector/wording/block_*.py memory_inspector/wording/settings.py",
    ),
    "Page Sessions, connect": (1_210, "ui/sessions/*.py"),
    "Frame, tab and parts of pages": (
        4_160,
        "app.py ui/__init__.py ui/frame/*.py ui/tab/*.py ui/parts/*.py pages/*.py memory_inspector/palette.py "
        "memory_inspector/wording/*.py memory_inspector/reading/*.py memory_inspector/figures/*.py",
    ),
    "Server and command": (
        1_710,
        "serve.py ui/server/*.py memory_inspector/__init__.py memory_inspector/__main__.py "
        "memory_inspector/server/*.py memory_inspector/commands/*.py",
    ),
}
"""For each capability: the most lines it may have, and its modules."""


def matches(file, patterns):
    """Tell whether a path matches one of the patterns, in which a star stands for a part of one name."""
    path = file.as_posix()
    return any(fnmatch(path, pattern) and path.count("/") == pattern.count("/") for pattern in patterns.split())


def capability_of(file):
    """Return the capability that a module belongs to; None if it belongs to none."""
    return next((name for name, (_, patterns) in CAPABILITIES.items() if matches(file, patterns)), None)


def lines_by_capability():
    """Count the lines of every capability without comments; under None those of modules that belong to none."""
    lines = Counter()
    for file in files(*PRODUCT):
        lines[capability_of(file)] += uncommented(file)
    return lines


def budgets():
    """Return lines and budget of every capability, and of the modules that belong to none, which have no budget."""
    lines = lines_by_capability()
    budget_of = {name: budget for name, (budget, _) in CAPABILITIES.items()} | {None: 0}
    return {f"lines of: {name or 'no capability'}": (lines[name], budget) for name, budget in budget_of.items()}
