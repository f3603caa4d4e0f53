"""The tables of the memory and the transactions on them.

Rows hold identity, order and sizes; texts are stored once, in the content store, under the hash by which events refer
to them.
"""
