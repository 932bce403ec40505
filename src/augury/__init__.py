"""Augury finds composite events in streams and histories, and knows when they happened and when it learned of them."""

from augury.api import Checked, Program, ProgramError, check, compile, detect

__version__ = "0.1.0"
__all__ = ["Checked", "Program", "ProgramError", "__version__", "check", "compile", "detect"]
