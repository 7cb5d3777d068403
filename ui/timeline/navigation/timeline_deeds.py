"""What each of the timeline's actions does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ui.timeline.lane_stack import LaneStack
    from ui.timeline.navigation.choosing import Choosing
    from ui.timeline.navigation.marking import Marking
    from ui.timeline.navigation.measuring import Measuring
    from ui.timeline.navigation.view_history import ViewHistory
    from ui.timeline.navigation.zooming import Zooming


def timeline_deeds(
    zooming: Zooming,
    choosing: Choosing,
    measuring: Measuring,
    marking: Marking,
    *,
    history: ViewHistory,
    stack: LaneStack,
) -> dict[str, Callable[[], object]]:
    """By the names of the window's actions."""
    return {
        "zoom_in": zooming.step_in,
        "zoom_out": zooming.step_out,
        "pan_left": partial(zooming.step_aside, -1),
        "pan_right": partial(zooming.step_aside, +1),
        "fit": zooming.fit,
        "zoom_selection": zooming.focus_selection,
        "view_back": history.back,
        "view_forward": history.forward,
        "next_span": partial(choosing.step, +1),
        "previous_span": partial(choosing.step, -1),
        "flow_on": partial(choosing.follow, +1),
        "flow_back": partial(choosing.follow, -1),
        "to_range": choosing.to_range,
        "deselect": measuring.deselect,
        "measure": measuring.start_here,
        "mark": marking.mark,
        "write_note": marking.write,
        "next_mark": partial(marking.step, +1),
        "previous_mark": partial(marking.step, -1),
        "delete_mark": marking.delete,
        "reset_lanes": stack.reset_lanes,
    }
