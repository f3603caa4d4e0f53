"""Every text that explains memory to a person: values in, words out. Imports no Streamlit and reads no database."""
