"""Conversion of messages from and to the forms of other libraries, and of objects to what notebooks show."""
