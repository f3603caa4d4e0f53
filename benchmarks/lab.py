"""What the Lab's plans cost: a session planned again, and two settings swept, beside playing the same conversation.

    python benchmarks/lab.py [--messages 10000] [--turns 600]

A session is lived under a recipe, then planned under other settings from its log. Each time is the median of several
plans, wall clock. Says for how many prompts nothing need be played. Nothing is asserted.
"""

import argparse
import statistics
import time

from memory_core import ChatMessage, Memory, Services
from memory_inspector.lab.playing import Player
from memory_inspector.lab.replanning import Replanner
from memory_inspector.lab.script import script_of
from memory_inspector.lab.sizes import sizes_of
from memory_inspector.lab.sweeping import Axis, sweep
from memory_inspector.lab.variants import Variant, variant_of

TIMES = 5


def lived(recipe: str, turns: int, limit: int) -> Memory:
    """A conversation under a recipe, with a prompt a turn."""
    memory = Memory.from_recipe(recipe, "s", "u", token_limit=limit, services=Services())
    for n in range(turns):
        words = f"Tell me about place {n}: I like thing {n % 50} in town {n % 17}, and what is it {n * 7 % 31}?"
        memory.put(ChatMessage(role="user", content=words))
        memory.build_context()
        reply = "It is a good place with many things to see, so do go there. " * (n % 4) + "Yes."
        memory.put(ChatMessage(role="assistant", content=reply))
    return memory


def seconds(work, times: int = TIMES) -> float:
    """Median of several runs."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


def knobs(variant: Variant) -> dict[str, Variant]:
    limit = variant.config.token_limit
    made = {
        "as it is": variant,
        "half the limit": variant.changed("B", token_limit=limit // 2),
        "twice the limit": variant.changed("B", token_limit=limit * 2),
        "history share 100 %": variant.changed("B", chat_history_token_ratio=1.0),
    }
    if variant.blocks:
        made["first block cut first"] = variant.changed("B", **{f"{variant.blocks[0].name}.priority": 9})
    return made


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--messages", type=int, default=10_000)
    asked.add_argument("--turns", type=int, default=600, help="of the conversation that is swept")
    options = asked.parse_args()

    print(f"Planned again, {options.messages:,} messages (recipe buffer, limit 2,000)")
    memory = lived("buffer", options.messages // 2, 2_000)
    print(f"  reading the sizes, once                    {seconds(lambda: sizes_of(memory), 1) * 1000:>9,.0f} ms")
    report(memory)

    for recipe in ("buffer", "blocks"):
        swept(recipe, options.turns)


def swept(recipe: str, turns: int) -> None:
    """Plan 100 configurations of a conversation, and play it once."""
    print(f"\n{turns} turns (recipe {recipe}, limit 1,000)")
    memory = lived(recipe, turns, 1_000)
    report(memory)
    planner, variant, script = Replanner(sizes_of(memory)), variant_of(memory), script_of(memory)
    x = Axis("token_limit", tuple(range(250, 2_251, 222)))
    y = Axis("chat_history_token_ratio", tuple(n / 10 for n in range(1, 11)))
    watched = [memory.trace.carriers("thing 7 in town 7"), memory.trace.carriers("place 599")]
    took = seconds(lambda: sweep(planner, variant, x, y, watched=watched), 1)
    print(f"  {len(x.values) * len(y.values)} configurations swept {took:>34.1f} s")
    took = seconds(lambda: Player(Services()).play(script, variant), 1)
    print(f"  the same conversation played once {took:>21.1f} s")


def report(memory: Memory) -> None:
    planner = Replanner(sizes_of(memory))
    for name, variant in knobs(variant_of(memory)).items():
        took = seconds(lambda variant=variant: planner.plan(variant))
        plan = planner.plan(variant)
        known = sum(prompt.sent is not None for prompt in plan.prompts)
        print(f"  {name:<42} {took * 1000:>9,.0f} ms   {known:,} of {len(plan.prompts):,} prompts known")


if __name__ == "__main__":
    main()
