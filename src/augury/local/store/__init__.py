"""Where ticks are kept: `sql` on SQLite or PostgreSQL, `memory` in the process. Both are an `engine.ports.Store`.

Nothing is imported here: a replay in memory does not wait for a database's library.
"""
