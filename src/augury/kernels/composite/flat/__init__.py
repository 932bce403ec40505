"""COMPOSITE compiled, for graphs of classes that stand once each: flat arrays instead of objects.

`tables` says which graphs these are and writes them down, `walk` and `walk_recent` run them; the results are those of
the operators that go step by step.
"""
