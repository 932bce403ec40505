"""Data → a draft of the classes it holds: what `augury infer` prints.

Files come in, a program text with its doubts as comments goes out; nothing here runs a program.
"""

from augury.infer.draft import Draft, infer

__all__ = ["Draft", "infer"]
