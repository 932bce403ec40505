"""A server of Augury, asked from Python: `augury.Client`."""

from augury.client.asking import Client
from augury.client.problems import ClientError, Problem, Unreachable

__all__ = ["Client", "ClientError", "Problem", "Unreachable"]
