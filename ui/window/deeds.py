"""What each of the window's actions does. Parts of the window that come late are asked for when an action is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from evprof.run.works.offers import OFFERS, OVERHEAD

if TYPE_CHECKING:
    from ui.window.late_parts import LateParts

Deeds = dict[str, Callable[[], object]]


def deeds(window: LateParts) -> Deeds:
    """By the names of `ui.window.actions`."""
    from ui.window.panels import PANELS

    return {
        "start_page": window.welcome.open,
        "open_events": window.toolbar.browse_events,
        "open_video": window.toolbar.browse_video,
        "open_sequence": window.toolbar.browse_sequence,
        "new_session": window.session.start_new,
        "settings": window.toolbar.open_settings,
        "run": window.toolbar.run,
        "stop": window.controller.stop,
        "demo": window.requests.run_demo,
        **{entry.name: partial(_show_panel, window, entry.name) for entry in PANELS},
        **{name: partial(_do_in_sight, window, work) for name, work in _below_the_start_page(window).items()},
        "theme": window.holder.toggle,
        "quit": window.close,
        **_late(window),
    }


def _below_the_start_page(window: LateParts) -> Deeds:
    """Those whose effect the start page would cover."""
    aligning = window.timeline.aligning
    return {
        **window.timeline.deeds(),
        "arrange": window.body.arrange,
        "save_layout": window.layouts.ask,
        "reset_layout": window.body.reset,
        **window.runs.deeds(),
        **window.pair.text_look.deeds(),
        "align_start": aligning.at_start,
        "align_first_token": aligning.at_first_token,
        "align_span": aligning.at_span,
        "align_by": aligning.ask,
    }


def _do_in_sight(window: LateParts, work: Callable[[], object]) -> None:
    """Does something to what the person sees; from the start page it only uncovers that."""
    if window.welcome.page.isHidden():
        work()
    else:
        window.welcome.page.leave()


def _show_panel(window: LateParts, name: str) -> None:
    """Shows a panel or hides it; from the start page it shows it."""
    if window.welcome.page.isHidden():
        window.body.toggle(name)
    else:
        window.welcome.page.leave()
        window.body.show_panel(name)


def _late(window: LateParts) -> Deeds:
    """Those that need a part of `ui.window.late_parts`."""
    return {
        "open_session": window.later("dialogs.ask_session"),
        "save_session": lambda: window.exporting.ask("session"),
        "import_results": window.later("results.browse"),
        "write_report": window.later("results.ask_report"),
        "distributions": window.later("dialogs.show_distributions"),
        "clinic": window.later("dialogs.show_clinic"),
        "compare": window.later("dialogs.show_comparison"),
        "torch_trace": window.later("trace_pages.show_newest"),
        "queue": window.later("long_work.show_queue"),
        **{offer.name: partial(window.ask_long_work, offer.name) for offer in OFFERS},
        OVERHEAD: window.measure_overhead,
        "larger": window.later("scale.larger"),
        "smaller": window.later("scale.smaller"),
        "usual_size": window.later("scale.usual"),
        "palette": window.later("finding.show_commands"),
        "find": window.later("finding.show_things"),
        "contents": window.later("help.contents"),
        "troubleshooting": window.later("help.troubleshooting"),
        "keys": lambda: window.dialogs.show_keys(window.actions_by_name.gestures()),
        "about": lambda: window.dialogs.show_about(window.status.environment),
    }
