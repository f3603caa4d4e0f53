"""Extract facts by rules in other languages than English, and detect languages."""
