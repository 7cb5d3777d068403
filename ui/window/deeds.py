"""What each of the window's actions does. Parts of the window that come late are asked for when an action is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from evprof.run.works.offers import FILM, OFFERS, OVERHEAD

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
        **{entry.name: partial(window.body.toggle, entry.name) for entry in PANELS},
        **window.timeline.deeds(),
        "arrange": window.body.arrange,
        "save_layout": window.layouts.ask,
        "reset_layout": window.body.reset,
        **window.runs.deeds(),
        **window.pair.text_look.deeds(),
        "align_start": window.timeline.aligning.at_start,
        "align_first_token": window.timeline.aligning.at_first_token,
        "align_span": window.timeline.aligning.at_span,
        "align_by": window.timeline.aligning.ask,
        "theme": window.holder.toggle,
        "tour": window.begin_tour,
        "quit": window.close,
        **_late(window),
    }


def _late(window: LateParts) -> Deeds:
    """Those that need a part of `ui.window.late_parts`."""
    return {
        "open_session": window.later("dialogs.ask_session"),
        "save_session": lambda: window.exporting.ask("session"),
        "import_results": window.later("results.browse"),
        "write_report": window.later("results.ask_report"),
        "distributions": window.later("dialogs.show_distributions"),
        "clinic": window.later("dialogs.show_clinic"),
        "training": window.later("dialogs.show_training"),
        "compare": window.later("dialogs.show_comparison"),
        "torch_trace": window.later("trace_pages.show_newest"),
        "link": window.later("linking.toggle"),
        "queue": window.later("long_work.show_queue"),
        **{offer.name: partial(window.ask_long_work, offer.name) for offer in OFFERS},
        OVERHEAD: window.measure_overhead,
        FILM: window.export_film,
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
