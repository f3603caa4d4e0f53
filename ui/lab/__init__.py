"""The page Lab: the conversation played under other configurations, before an agent runs with them."""
