"""The state of a session as its log tells it, one slice a subject: each applies events in order and is read in between.

A reader (`rebuild`, `rows_at`, `fates`, ...) holds the slices it needs and adds its own counting.
"""
