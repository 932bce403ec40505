"""HOW: event expressions as finite automata over the symbols of a history; plain data, pure Python.

Nothing here reads events: symbols stand for the kinds of event that an expression tells apart.
"""
