"""Import, export and adapters: other people's conversations in, ours out.

One module a format. Each turns a file into `ChatMessage`s, or says in one sentence what is wrong
with the file and where; storing what was read is the engine's business.
"""
