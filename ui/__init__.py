"""The app's drawing with Streamlit, without decisions or wording: one folder per page, and folders that pages share."""
