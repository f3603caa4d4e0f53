"""Temporary copies of what is opened: private, and gone after use, even if the process was killed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memory_core.process import is_running, scratch_folder

COPYING = """
import sys, time
from memory_core.process import scratch_folder
with scratch_folder() as folder:
    (folder / "copy.db").write_text("words")
    print(folder, flush=True)
    time.sleep(60)
"""


def started(temporary):
    child = subprocess.Popen(
        [sys.executable, "-c", COPYING], stdout=subprocess.PIPE, text=True, env={"TMPDIR": str(temporary)}
    )
    assert child.stdout is not None
    return child, Path(child.stdout.readline().strip())


def test_a_folder_is_private_and_gone_after_use():
    with scratch_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


@pytest.mark.slow
def test_what_a_killed_process_left_is_removed_by_the_next_and_what_is_in_use_stays(tmp_path):
    killed, left = started(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert left.exists()
    assert not is_running(killed.pid)
    working, used = started(tmp_path)
    assert not left.exists()
    other, _ = started(tmp_path)
    assert used.exists()
    for child in (working, other):
        child.kill()
        child.communicate()
