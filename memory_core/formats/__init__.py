"""Conversion of messages from and to the forms of other libraries."""
