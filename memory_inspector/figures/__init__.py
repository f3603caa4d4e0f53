"""Figures and colours: values in, a Plotly figure or HTML out. Imports no Streamlit."""
