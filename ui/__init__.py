"""The app drawn with Streamlit: decides nothing and words nothing; one folder a page, and what pages share."""
