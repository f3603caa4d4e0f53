"""The app's frame: page set-up, navigation and sidebar around the page that was asked for. No logic."""

import streamlit as st

from ui.server import start
from ui.tab import drawing, nav

nav.configure_page()
nav.mark_shell_ready()

LOGOS = {"light": "logo.svg", "dark": "logo-dark.svg"}
st.logo(str(nav.STATIC / LOGOS[drawing.mode()]), icon_image=nav.ICON)

if "is_logged_in" in st.user.to_dict():  # people sign in here
    from ui.frame.sidebar import require_person

    require_person()

pages = nav.build_pages()
page = st.navigation(pages, position="hidden")
menu = nav.Menu(pages, page)

from ui.parts.components import draw_styles  # noqa: E402
from ui.tab import selection, state  # noqa: E402

draw_styles()
state.begin_run()
# Drawn before the sidebar, which loads the engine, a second the first time.
if page.title == nav.title("code"):
    from ui.frame.header import draw_plain_header

    with drawing.together((page.url_path, None)):
        draw_plain_header(page.title)
        page.run()
        from ui.frame import keys
        from ui.frame.sidebar import draw_sidebar, select_session

        with st.sidebar:
            draw_sidebar(select_session(), None, alone=nav.shows_coding_session(page))
        selection.write_link(page.url_path)
        menu.draw()
        nav.name_tab(page.title, None)
        keys.listen(page)
else:
    from ui.frame import header, keys
    from ui.frame.sidebar import draw_sidebar, select_session

    # The session is selected first, as `together` must know which session this run shows.
    sessions = select_session()
    with drawing.together((page.url_path, state.selected_session())):
        with st.sidebar:
            session = draw_sidebar(sessions, memory := header.open_session())
        header.draw_header(page, memory)
        menu.draw()
        nav.name_tab(page.title, session if page.title not in header.WITHOUT_CLOCK else None)
        keys.listen(page)
        page.run()
start.page_is_out()
