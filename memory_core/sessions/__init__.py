"""Operations on whole sessions: list, branch, switch, record, forget."""
