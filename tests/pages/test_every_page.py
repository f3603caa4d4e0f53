"""Every page opens on the demo, in light and dark; what each shows and does is tested page by page, as slow tests."""

import pytest
from pages_driver import ROOT, opened

TITLES = {"code": "Coding agents", "trace": "Where did it go?"}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_opens_on_the_demo_under_its_title(theme, demo_home):
    app = opened(session="demo", theme=theme)
    names = sorted(path.stem for path in (ROOT / "pages").glob("*.py"))
    assert len(names) > 9
    for name in names:
        app.switch_page(f"pages/{name}.py")
        app.query_params["session"] = "demo"
        app.run()
        assert not app.exception, name
        assert [each.value for each in app.title] == [TITLES.get(name, name.capitalize())]
