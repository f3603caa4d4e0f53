"""Subcommands of `memory-inspector` that run in a terminal; none imports Streamlit."""
