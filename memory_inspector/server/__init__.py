"""Work of the server process that outlives a page: jobs, chat turns, unsaved texts. Imports no Streamlit."""
