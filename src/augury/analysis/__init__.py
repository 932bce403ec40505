"""SYNTAX → PROGRAM: names, types, variables, order of classes; `analyse` is the one way in.

Every mistake becomes a diagnostic and the rest goes on, so that one run finds them all.
"""
