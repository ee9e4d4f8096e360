"""The session's rules: state, life cycle, reducer, journal. Pure; nothing here awaits, reads a clock or does I/O.

Theory of operation. A session is what its journal says. `reducer.reduce` folds one event into the state or rejects it;
`lifecycle.TRANSITIONS` is the one table of what may follow what; `record.SessionRecord` folds a journal entry by entry,
live and at replay by the same path. Orchestration (`effects.py`, `turn.py`, `owner.py`) appends events and calls these.
"""
