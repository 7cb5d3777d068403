"""Samples from the entries of EventGPT's instruction JSON, which lies beside the folders of its dataset.

    dataset/  any.json  event_npy/  event_image/  event_image_1f/  mp4/  video/

An entry names its files without their folder: `event_data` "drive/000001.npy" is event_npy/drive/000001.npy, and
`video_data` "drive/000001" is mp4/drive/000001.mp4 or the frames in video/drive/000001/. Rendered event frames of all
clips of a drive share a folder (event_image/drive/000001_0.png … _4.png).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from evprof.core.sample import Sample
from evprof.loaders.manifests.columns import ODD_TEXTS, Entry, RowSamples, column_name, usable
from evprof.loaders.manifests.columns import SYNONYMS as OWN
from evprof.loaders.manifests.counterparts import NOTHING, Half, path_problem, type_name
from evprof.loaders.manifests.expected_cells import EXPECTED
from evprof.loaders.manifests.rows import MAX_TURNS, shown
from evprof.loaders.pictures.frame_folder import FRAME_NUMBER

MARKS = frozenset({"event_data", "event_image", "event_image_1f", "video_data", "mp4_data", "conversations"})
"""Keys by which an entry is known to be EventGPT's."""

_KNOWN = frozenset(
    {
        *MARKS,
        *("video_type", "split", "benchmark_datetime"),
        *OWN["name"],
        *OWN["prompt"],
        *(name for names in EXPECTED.values() for name in names),
    }
)
_VIDEO_TYPES = ("images", "image", "video", "mp4")
_PLACEHOLDER = re.compile(r"(?:\s|<ev_start>)*<(?:event|image|video)>(?:\s|<ev_end>)*", re.IGNORECASE)
_HUMANS, _MODELS = ("human", "user"), ("gpt", "assistant")


def without_placeholders(text: str) -> str:
    """A question without `<event>`, `<image>` and `<video>` and the white space around them."""
    return _PLACEHOLDER.sub(lambda found: "\n" if "\n" in found[0] else " ", text).strip()


class InstructionSamples(RowSamples):
    """Entries of an instruction JSON."""

    unit = "key"
    has_prompts = has_columns = True

    def _entry(self, number: int, values: dict[str, object]) -> Entry:
        entry = {column_name(key): value for key, value in values.items()}
        for key in values:
            if column_name(key) not in _KNOWN:
                self._tell_unknown(key)
        given = next((entry[key] for key in OWN["name"] if entry.get(key) is not None), None)
        name = self._texts.name(given, self._stem(entry, "events") or self._stem(entry, "video"))
        name = self._names.unique(number, name, is_given=given is not None)
        expected = {field: next((entry[key] for key in keys if key in entry), None) for field, keys in EXPECTED.items()}
        return Entry(name, given is not None, self._questions(number, entry), entry | expected)

    def _found(self, number: int, entry: Entry) -> Sample | None:
        cells = entry.cells
        events, video = self._events(cells, self._stem(cells, "video")), self._video(cells, self._stem(cells, "events"))
        return Sample(events.path, video.path) if usable(number, events, video, self._problems) else None

    # Questions

    def _questions(self, row: int, entry: Mapping[str, object]) -> list[tuple[str | None, str | None]]:
        """(question, reference answer) of each turn of a person; at least one, which may be without a question."""
        turns = entry.get("conversations")
        if turns is not None and not isinstance(turns, list):
            self._problems.add(ODD_TEXTS, f"Row {row}: its conversations should be a list, not {type_name(turns)}.")
            turns = None
        asked = self._turns(row, turns or [])
        query = next((entry[key] for key in OWN["prompt"] if entry.get(key) is not None), None)
        if not any(question for question, _ in asked):
            question = self._texts.text(row, query, "query")
            given = [reference for _, reference in asked if reference]
            asked = [(without_placeholders(question) if question else None, given[0] if given else None)]
        return asked

    def _turns(self, row: int, turns: list[object]) -> list[tuple[str | None, str | None]]:
        asked: list[tuple[str | None, str | None]] = []
        is_open = False
        for turn in turns[:MAX_TURNS]:
            speaker, value = _said(turn)
            if speaker in _HUMANS:
                text = self._texts.text(row, value, "question")
                asked.append((without_placeholders(text) or None if text else None, None))
                is_open = True
            elif speaker in _MODELS:
                if is_open:
                    asked[-1] = (asked[-1][0], self._texts.text(row, value, "reference answer"))
                is_open = False
            else:
                self._problems.add(
                    ODD_TEXTS, f"Row {row}: a turn of its conversations is by neither human nor gpt and is left out."
                )
        if len(turns) > MAX_TURNS:
            self._problems.add(ODD_TEXTS, f"Row {row}: has {len(turns):,} turns; the first {MAX_TURNS:,} are read.")
        # A turn without words asks nothing; the first stays, so that its answer is not given to another.
        return asked[:1] + [pair for pair in asked[1:] if pair[0]]

    # Files

    @staticmethod
    def _stem(entry: Mapping[str, object], half: str) -> str:
        """The name of a clip as an entry's paths have it, without an ending: "drive/000001"."""
        keys = ("event_data",) if half == "events" else ("video_data", "mp4_data")
        for key in keys:
            value = entry.get(key)
            if isinstance(value, str) and value.strip() and path_problem(value, half) is None:
                return re.sub(r"\.(npy|npz|mp4)$", "", value.strip().rstrip("/"), flags=re.IGNORECASE)
        return ""

    def _events(self, entry: Mapping[str, object], video_name: str) -> Half:
        wanted = self._choices.events_from
        missing = None
        for source in ("npy", "image", "image_1f") if wanted == "auto" else (wanted,):
            if source == "npy":
                half = self._npy(entry, video_name)
            else:
                half = self._frames(entry, f"event_{source}", video_name, is_asked=wanted != "auto")
            if half.path:
                return half
            missing = missing or half.missing
        return Half(None, missing)

    def _npy(self, entry: Mapping[str, object], video_name: str) -> Half:
        value = entry.get("event_data")
        problem = path_problem(value, "events")
        if problem:
            return Half(None, problem)
        named = value.strip() if isinstance(value, str) else ""
        stem = self._stem(entry, "events") or video_name
        if not stem:
            return NOTHING
        first = f"event_npy/{named or stem + '.npy'}"
        candidates = [first, f"event_npy/{stem}.npy", f"event_npy/{stem}.npz", *([named] if named else [])]
        path = next((found for found in map(self._files.file, candidates) if found), None)
        if path or not named:
            return Half(path)
        return Half(None, f"its events '{shown(first)}' are not there")

    def _frames(self, entry: Mapping[str, object], key: str, video_name: str, *, is_asked: bool) -> Half:
        """Rendered event frames: those that `key` names, of a list the set of its first one, or by the clip's name."""
        value = entry.get(key)
        if isinstance(value, list):
            first = value[0] if value and isinstance(value[0], str) else ""
            numbered = re.fullmatch(r"(.*)_[0-9]+\.png", first.strip(), re.IGNORECASE)
            value = numbered[1] if numbered else first.rpartition("/")[0]
        problem = path_problem(value, "event frames")
        if problem:
            return Half(None, problem)
        named = value.strip().rstrip("/") if isinstance(value, str) else ""
        stem = named or self._stem(entry, "events") or video_name
        if not stem:
            return NOTHING
        folder, _, clip = f"{key}/{stem}".rpartition("/")
        for path, count in (
            self._files.picture_set(folder, f"{clip}_"),
            self._files.picture_folder(f"{key}/{stem}"),
            *([self._files.picture_folder(named)] if named else []),
        ):
            if count:
                return Half(path)
        if not named and not is_asked:
            return NOTHING
        return Half(None, f"its event frames '{shown(f'{folder}/{clip}_{FRAME_NUMBER}.png')}' are not there")

    def _video(self, entry: Mapping[str, object], events_name: str) -> Half:
        kind = entry.get("video_type")
        if kind is not None and kind not in _VIDEO_TYPES:
            known = ", ".join(_VIDEO_TYPES)
            self._problems.add("odd video types", f"A video_type is '{shown(str(kind))}' and none of {known}.")
        values = {key: entry.get(key) for key in ("mp4_data", "video_data")}
        for value in values.values():
            problem = path_problem(value, "video")
            if problem:
                return Half(None, problem)
        named = {key: value.strip().rstrip("/") for key, value in values.items() if isinstance(value, str)}
        stem = self._stem(entry, "video")
        half = self._files.video(self._video_candidates(named, stem or events_name))
        # Without a name of its own a video is a find and not a loss.
        return half if half.path or stem else NOTHING

    def _video_candidates(self, named: Mapping[str, str], stem: str) -> list[str]:
        wanted = self._choices.video_from
        given = [name for name in named.values() if name]
        if not stem:
            return []
        candidates: list[str] = []
        if wanted in ("auto", "mp4"):
            candidates += [f"mp4/{stem}.mp4", *(f"mp4/{name}" for name in given)]
        if wanted in ("auto", "video"):
            candidates += [f"video/{name}" for name in given] + [f"video/{stem}", f"video/{stem}.mp4"]
        return candidates + given


def _said(turn: object) -> tuple[str, object]:
    """Who speaks in a turn, and what; "" for what is no turn."""
    if not isinstance(turn, dict):
        return "", None
    speaker = turn.get("from", turn.get("role"))
    return speaker.casefold() if isinstance(speaker, str) else "", turn.get("value", turn.get("content"))
