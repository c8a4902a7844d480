"""When has a run come so far that something is to happen?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable

from cutwater.runtime import messages
from cutwater.testing.simulation.conditions import Milestone, Moment
from cutwater.testing.simulation.world import Action, World


class Milestones:
    """Of one life. What is to happen at one that is never reached never happens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._counts: Counter[Milestone] = Counter()
        self._seen: set[Hashable] = set()
        self._waiting: dict[tuple[Milestone, int], list[tuple[float, Action]]] = defaultdict(list)

    def at(self, moment: Moment, action: Action) -> None:
        if moment.milestone is None:
            self._world.after(moment.seconds, action)
        else:
            self._waiting[moment.milestone, moment.count].append((moment.seconds, action))

    def reached(self, milestone: Milestone, what: Hashable) -> None:
        """`what`: the same thing counts once, however many slots are told of it."""
        if (milestone, what) in self._seen:
            return
        self._seen.add((milestone, what))
        self._counts[milestone] += 1
        for seconds, action in self._waiting.pop((milestone, self._counts[milestone]), ()):
            self._world.after(seconds, action)


def milestone_of(message: messages.FromCoordinator) -> tuple[Milestone, Hashable] | None:
    """What a coordinator that says this has reached."""
    match message:
        case messages.DeployAttempt():
            return Milestone.DEPLOYING, message.attempt
        case messages.TriggerCheckpoint(savepoint=""):
            return Milestone.TRIGGERED, (message.attempt, message.checkpoint)
        case messages.TriggerCheckpoint():
            return Milestone.SAVEPOINT, (message.attempt, message.checkpoint)
        case messages.CheckpointCompleted():
            return Milestone.COMPLETED, (message.attempt, message.checkpoint)
        case _:
            return None
