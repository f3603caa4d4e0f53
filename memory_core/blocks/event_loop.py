"""The engine's event loop, for blocks with async methods.

The loop runs in a thread of its own, so that synchronous code can wait for it even when the caller's loop is running.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from memory_core.process import per_process

Result = TypeVar("Result")


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine and return its result; its exceptions are raised here."""
    result = asyncio.run_coroutine_threadsafe(_caught(coroutine), _loop()).result()
    if isinstance(result, SystemExit | KeyboardInterrupt):
        raise result
    return result


async def _caught(coroutine: Coroutine[Any, Any, Result]) -> Result | SystemExit | KeyboardInterrupt:
    # Raised within the loop, these would end its thread, and all blocks would wait for it forever.
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        return error


@per_process
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    # A daemon: a hook that never ends must not keep the program from ending.
    threading.Thread(target=loop.run_forever, name="memory-blocks", daemon=True).start()
    return loop
