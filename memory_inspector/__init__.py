"""The app without Streamlit. An installed package has the pages beside this file, the repository one folder above."""
