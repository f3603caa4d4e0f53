"""The rows, searches and states that a page shows, as frozen values. Imports no Streamlit."""
