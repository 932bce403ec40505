"""`python -m augury` is the `augury` command."""

from augury.cli import main

main()
