"""`streamlit run app.py` alone is not the whole app, and says so in one line; `serve.py` is."""

from pages_driver import joined, opened

from ui.tab import entry_point


def test_app_py_alone_says_what_it_lacks(demo_home, capsys):
    app = opened(page="chat", session="demo")
    assert entry_point.MISSING in joined(app)
    assert "\n" not in entry_point.MISSING


def test_the_line_is_printed_once(monkeypatch, capsys):
    monkeypatch.setattr(entry_point, "_told", type(entry_point._told)())
    assert entry_point.missing() == entry_point.missing() == entry_point.MISSING
    assert capsys.readouterr().out.count(entry_point.MISSING) == 1


def test_serve_py_lacks_nothing(monkeypatch, capsys):
    monkeypatch.setattr(entry_point, "_whole", type(entry_point._whole)())
    entry_point.started_whole()
    assert entry_point.missing() == ""
    assert capsys.readouterr().out == ""
