"""The state of a session as recorded in its log, one slice per subject; each applies events in order.

A reader (`rebuild`, `rows_at`, `outcomes`, ...) holds the slices it needs and adds its own counting.
"""
