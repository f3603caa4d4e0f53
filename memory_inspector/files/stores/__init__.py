"""Readers of other programs' stores, read-only: foreign bytes in, plain values out."""
