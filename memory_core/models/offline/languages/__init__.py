"""Facts by rules in other languages than English, and telling languages apart."""
