"""COMMAND: a program of this machine, from a list of those that may be run; never by a shell.

Its words stand in the binding and nowhere else; the action comes as JSON on standard input. It is done when the program
ends with 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from augury.actions.delivery import Again, Dead, Delivered, Delivery, HoldsNothing, Outcome, shortened
from augury.environment import Environment


def refusal(words: tuple[str, ...], allowed: tuple[str, ...]) -> str | None:
    """Why a command may not be run; None if it may."""
    name = words[0]
    if "/" in name and not name.startswith("/"):
        return f"the command `{name}` is a relative path: write it from `/`, or the bare name"
    if name not in allowed:
        return f"the command `{name}` may not be run: add it to `commands` under [actions] in augury.toml"
    return None


@dataclass(frozen=True)
class Command(HoldsNothing):
    """Runs a program."""

    words: tuple[str, ...]
    seconds: float

    @property
    def target(self) -> str:
        """The program."""
        return f"command {self.words[0]}"

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Run it."""
        try:
            ended = await environment.run(self.words, delivery.json().encode() + b"\n", self.seconds)
        except TimeoutError:
            return Again(f"`{self.words[0]}` took longer than {self.seconds:g} s and was ended")
        except (FileNotFoundError, PermissionError) as error:
            return Dead(f"`{self.words[0]}` cannot be run: {error.strerror}", is_target=True)
        except OSError as error:
            return Again(f"`{self.words[0]}` cannot be run: {error.strerror or error}")
        if ended.exit_code == 0:
            return Delivered()
        said = " ".join(ended.told.split())
        return Again(shortened(f"`{self.words[0]}` ended with {ended.exit_code}" + (f": {said}" if said else "")))
