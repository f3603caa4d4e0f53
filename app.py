"""The app's frame: page set-up, navigation and sidebar around the page that was asked for. No logic."""

import streamlit as st

from ui import appearance, nav, warm_up
from ui.menu import Menu

nav.configure_page()
nav.mark_shell_ready()

LOGOS = {"light": "logo.svg", "dark": "logo-dark.svg"}
st.logo(str(nav.STATIC / LOGOS[appearance.mode()]), icon_image=nav.ICON)

pages = nav.build_pages()
page = st.navigation(pages, position="hidden")
menu = Menu(pages, page)

from ui import drawing, frame, keys, state  # noqa: E402  (takes a second the first time; the frame is drawn by then)
from ui.components import draw_styles  # noqa: E402
from ui.sidebar import draw_sidebar, select_session  # noqa: E402

draw_styles()
state.begin_run()
sessions = select_session()
with drawing.together((page.url_path, state.selected_session())):
    with st.sidebar:
        session = draw_sidebar(sessions)
    frame.draw_header(page)
    menu.draw()
    nav.name_tab(page.title, session if page.url_path not in frame.WITHOUT_CLOCK else None)
    keys.listen(page)
    page.run()
warm_up.page_is_out()
