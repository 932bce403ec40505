"""TEXT → SYNTAX and back: lexer, grammar, parser, syntax nodes, printer and formatter.

Nothing here knows what a program means; `augury.analysis` does.
"""
