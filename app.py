"""The app's frame: page set-up, navigation and sidebar around the page that was asked for. No logic."""

import streamlit as st

from ui import nav, theme

nav.configure_page()
nav.mark_shell_ready()

LOGOS = {"light": "logo.svg", "dark": "logo-dark.svg"}
st.logo(str(nav.STATIC / LOGOS[theme.mode()]), icon_image=nav.ICON)

page = st.navigation(nav.build_pages())

from ui import frame  # noqa: E402  (takes a second the first time; the frame is drawn by then)
from ui.sidebar import draw_sidebar  # noqa: E402

frame.take_link()
with st.sidebar:
    draw_sidebar()
frame.draw_header(page)
page.run()
