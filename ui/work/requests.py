"""What a person asks to be run: the one place from which the window hands requests to the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from evprof.core.errors import UserError
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.loaders.bundled import bundled_samples
from evprof.run.demo import demo_requests
from ui.samples.clip_choice import identity

if TYPE_CHECKING:
    from ui.settings.toolbar import Toolbar
    from ui.state.run_controller import RunController
    from ui.state.run_following import RunFollowing


class Requests:
    """Hands requests over; `post` tells a refusal."""

    def __init__(
        self, controller: RunController, following: RunFollowing, toolbar: Toolbar, post: Callable[[str], object]
    ) -> None:
        self._controller = controller
        self._following = following
        self._toolbar = toolbar
        self._post = post

    def submit(self, *requests: RunRequest) -> None:
        """Hands requests over and brings their runs into view."""
        if not self._controller.is_busy:
            self._following.begin()
        self._hand_over(*requests)

    def measure_beside(self, request: RunRequest) -> None:
        """The same, and the columns stay on what they show: what is measured is to be held against it."""
        self._following.stay()
        self._hand_over(request)

    def run_demo(self) -> None:
        """Runs the bundled models on the bundled sample (see `evprof.run.demo`)."""
        self.submit(*demo_requests())

    def run_chosen(self) -> None:
        """Runs the sample that is chosen, as the toolbar says; the bundled one as the demo does."""
        if is_of_demo(self._toolbar.sample):
            self.run_demo()
        else:
            self._toolbar.run()

    def _hand_over(self, *requests: RunRequest) -> None:
        try:
            self._controller.submit(*requests)
        except UserError as error:
            self._post(error.sentence)


def is_of_demo(sample: Sample) -> bool:
    """Whether it is the sample that the demo runs."""
    return any(identity(bundled) == identity(sample) for bundled in bundled_samples()[:1])
