"""The server process: engine, jobs, chat turns, recording proxy, span receiver, demo. Imports no Streamlit."""
