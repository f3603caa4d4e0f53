"""Decisions as pure functions: values in, a plan out; no store, no model, no clock."""
