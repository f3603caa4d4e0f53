"""The pytest plugin: fixtures, prompt assertions and probe files, as a user's test run shows them."""

import json
import re

import pytest
from probe_kit import NUTS, write_configuration, write_probe_file

pytest_plugins = ["pytester"]

PROBES = [NUTS, {"expect": "never_in_prompt", "phrase": "credit card"}]
LOST = "Flushed in turn 3: the queue had"


@pytest.fixture
def folder(pytester):
    """A folder of a user's program with one probe file."""
    probes = pytester.mkdir("probes")
    write_configuration(probes)
    write_probe_file(probes, PROBES)
    return probes


def run(pytester, *arguments):
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:randomly", *arguments)


@pytest.mark.slow
def test_one_setting_makes_probes_red_with_the_sentence_and_back_green(pytester, folder):
    write_configuration(folder, enabled=False)
    red = run(pytester, "--memory", "probes")
    red.assert_outcomes(failed=1, passed=1)
    assert LOST in red.stdout.str()
    assert "Smallest change that mends it: facts.enabled False → True." in red.stdout.str()
    write_configuration(folder)
    run(pytester, "--memory", "probes").assert_outcomes(passed=2)


@pytest.mark.slow
def test_only_the_option_collects_probe_files(pytester, folder):
    pytester.makepyfile("def test_own(): pass")
    run(pytester).assert_outcomes(passed=1)
    run(pytester, "--memory", "probes").assert_outcomes(passed=2)
    run(pytester, "--memory", "probes", "test_only_the_option_collects_probe_files.py").assert_outcomes(passed=3)


@pytest.mark.slow
def test_another_configuration_is_tried_by_an_option(pytester, folder):
    write_configuration(pytester.mkdir("other"), enabled=False)
    run(pytester, "--memory", "probes", "--memory-config", "other/config.json").assert_outcomes(failed=1, passed=1)


@pytest.mark.slow
def test_the_report_has_the_page_of_each_failure_and_runs_nothing_else(pytester, folder):
    write_configuration(folder, enabled=False)
    pytester.makepyfile(
        """
        from memory_inspector.checks import assert_in_prompt

        def test_own(memory):
            memory.put({"role": "user", "content": "<script>alert(1)</script> Hello"})
            memory.build_context()
            assert_in_prompt(memory, "good <b>bye</b>")
        """
    )
    arguments = ("--memory", "probes", "--memory-report", "report.html")
    run(pytester, *arguments, str(pytester.path)).assert_outcomes(failed=2, passed=1)
    report = pytester.path.joinpath("report.html").read_text(encoding="utf-8")
    assert report.count("<iframe") == report.count('sandbox="allow-scripts"') == 2
    assert "<script" not in report  # those of the pages are escaped, as text of an attribute
    assert "<b>" not in report
    assert "default-src 'none'" in report
    frames = re.findall(r'srcdoc="([^"]*)"', report)
    assert [("allergic" in frame, "Hello" in frame) for frame in frames] == [(True, False), (False, True)]


@pytest.mark.slow
def test_processes_of_xdist_run_the_probes_and_write_one_report(pytester, folder):
    write_configuration(folder, enabled=False)
    result = pytester.runpytest_subprocess("--memory", "probes", "-n", "2", "--memory-report", "report.html")
    result.assert_outcomes(failed=1, passed=1)
    assert pytester.path.joinpath("report.html").read_text(encoding="utf-8").count("<iframe") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": 2}, "dinner.probes.json has version 2 of probe files, and this release reads version 1."),
        ({"conversation": "lost.zip"}, "lost.zip cannot be read"),
        ({"probes": [{"expect": "in_promt"}]}, "dinner.probes.json is not a probe file"),
        ({"probes": [], "conversation": "config.json"}, "config.json is a configuration. A conversation is needed"),
    ],
)
def test_a_probe_file_that_cannot_be_used_is_one_sentence(pytester, folder, changes, sentence):
    write_probe_file(folder, **({"probes": PROBES} | changes))
    result = run(pytester, "--memory", "probes")
    result.assert_outcomes(errors=1)
    assert sentence in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


@pytest.mark.slow
def test_a_block_that_is_not_installed_is_named_even_where_all_probes_hold(pytester, folder):
    write_configuration(folder, more=[{"name": "moods", "type": "elsewhere.blocks:Moods", "settings": {}}])
    pytester.makepyfile("def test_it(replay): replay('probes/dinner.zip', config='probes/config.json')")
    result = pytester.runpytest_subprocess("--memory", "probes", str(pytester.path))  # where warnings are no errors
    result.assert_outcomes(passed=3, warnings=2)
    assert "moods" in result.stdout.str()


@pytest.mark.slow
def test_a_list_of_probes_is_told_what_it_lacks(pytester, folder):
    folder.joinpath("dinner.probes.json").write_text(json.dumps(PROBES), encoding="utf-8")
    assert '"conversation": "session.zip"' in run(pytester, "--memory", "probes").stdout.str()


@pytest.mark.slow
def test_a_missing_path_is_a_usage_error(pytester):
    result = run(pytester, "--memory", "nowhere")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "there is no file or folder nowhere" in result.stderr.str()


@pytest.mark.slow
def test_the_fixture_is_a_new_closed_offline_memory_each_time(pytester, monkeypatch, tmp_path):
    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path / "home"))
    pytester.makepyfile(
        """
        import pytest
        from memory_core.errors import StoreError
        from memory_inspector.checks import (
            assert_block_tokens,
            assert_fact_cites,
            assert_in_prompt,
            assert_not_in_prompt,
        )

        made = []

        @pytest.mark.memory("blocks", token_limit=500)
        @pytest.mark.parametrize("time", [1, 2])
        def test_recipe(memory, time):
            made.append(memory)
            assert memory.session.status().turns == 0
            assert memory.session.config.token_limit == 500
            memory.put({"role": "user", "content": "I live in Porto."})
            memory.build_context()
            assert_in_prompt(memory, "live in Porto")
            assert_not_in_prompt(memory, "Lisbon")
            with pytest.raises(AssertionError, match="is in the prompt of turn 1"):
                assert_not_in_prompt(memory, "Porto")
            with pytest.raises(AssertionError, match="There is no turn 7"):
                assert_in_prompt(memory, "Porto", turn=7)

        def test_no_prompt_yet(memory):
            with pytest.raises(AssertionError, match="No prompt was built yet"):
                assert_in_prompt(memory, "Porto")

        def test_closed():
            for memory in made:
                with pytest.raises(StoreError):
                    memory.build_context()
        """
    )
    run(pytester).assert_outcomes(passed=4)
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_a_replay_takes_a_file_and_changes(pytester, folder):
    pytester.makepyfile(
        """
        import pytest
        from memory_inspector.checks import (
            assert_block_tokens, assert_evidence_in_prompt, assert_fact_cites, assert_in_prompt
        )

        def test_recorded(replay):
            memory = replay("probes/dinner.zip")
            assert_in_prompt(memory, "allergic to nuts", turn=4)
            assert_evidence_in_prompt(memory, [1], turn=4)
            assert_fact_cites(memory, 1)
            assert_block_tokens(memory, "facts", 3)
            with pytest.raises(AssertionError, match="facts has fewer than 500 tokens"):
                assert_block_tokens(memory, "facts", 500)

        def test_changed(replay):
            memory = replay("probes/dinner.zip", config={"facts.enabled": False})
            with pytest.raises(AssertionError, match="Some of messages 1 are not in the prompt of turn 4"):
                assert_evidence_in_prompt(memory, [1], turn=4)
            with pytest.raises(AssertionError, match="No fact cites message 1"):
                assert_fact_cites(memory, 1)
            assert_in_prompt(memory, "allergic to nuts", turn=4)
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=1)
    assert LOST in result.stdout.str()


@pytest.mark.slow
def test_other_test_runs_do_not_load_the_engine(pytester):
    pytester.makepyfile("import sys\ndef test_light(): assert 'memory_core' not in sys.modules")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
