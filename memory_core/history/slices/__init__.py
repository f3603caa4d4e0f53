"""The state of a session as recorded in its log, one slice per subject; each applies events in order.

`projection` holds all of them; readers (`usage`, `rebuild`, `rows_at`, `outcomes`, ...) query it.
"""
