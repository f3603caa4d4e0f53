"""Search for words that were forgotten, in every file of a folder. Shares no code with what deletes them."""
