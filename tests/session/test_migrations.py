"""The chain from older formats, and the golden files that hold each format to what it was."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.core.run_log import RunBook
from evprof.metrics.figures.energy import energy_j
from evprof.metrics.figures.stages import total_ms
from evprof.session import migrations, opened, reading, tables
from evprof.session.migrations import MIGRATIONS, format_of
from evprof.session.opened import OpenedSession, open_session
from evprof.session.tables import FORMAT
from whole_session import load_session

GOLDEN = Path(__file__).parent / "golden"


def test_there_is_a_step_from_every_older_format():
    assert sorted(MIGRATIONS) == list(range(1, FORMAT))


def test_a_reader_migrates_a_copy_and_leaves_the_file_alone(write_session, monkeypatch):
    """As if the format after this one had renamed a key of the session."""
    path = write_session()
    before = path.read_bytes()

    def to_next(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE session SET value = '\"migrated\"' WHERE key = 'created_at'")
        tables.seal(connection)

    following = FORMAT + 1
    monkeypatch.setattr(reading, "FORMAT", following)
    monkeypatch.setattr(
        reading, "migrate", lambda connection: migrations.migrate(connection, {FORMAT: to_next}, following)
    )
    session = load_session(path)
    assert session.created_at == "migrated"
    assert session.recording.row_count > 0
    assert path.read_bytes() == before


REMOVED = {"attention_kernels", "frame_cache", "video_decoder", "baseline"}
"""Settings and facts that older versions had; a run that was stored with one is read without it."""


def assert_holds(written, read):
    """Every value that was written is read back, however deep, but for settings that were removed."""
    if isinstance(written, dict):
        for name in written.keys() - REMOVED:
            assert_holds(written[name], read[name])
    else:
        assert read == written


def golden(name: str) -> tuple[OpenedSession, RunBook]:
    """A golden session as read now. Every value its runs were described with is still there."""
    path = GOLDEN / name
    session = load_session(path)
    book = RunBook(session.recording)
    book.update()
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        for run_id, text in connection.execute("SELECT run_id, info FROM runs"):
            # Later versions may know more of a run, never less.
            assert_holds(json.loads(text), json.loads(json.dumps(book.runs[run_id].info.to_json())))
    return session, book


def rows_of(session: OpenedSession) -> dict[str, int]:
    return {name: len(stream) for name, stream in session.recording.streams.items()}


def digest_of(session: OpenedSession, *, before_7: bool = True) -> str:
    """Of all rows, a stream without rows leaving no trace; of older formats without what rounds tell since format 7."""
    digest = hashlib.sha256()
    for name, stream in session.recording.streams.items():
        told = 11 if name == "rounds" and before_7 else None
        if len(stream):
            digest.update(repr([tuple(row)[:told] for row in stream.rows()]).encode())
    return digest.hexdigest()


STREAMS_IN_ORDER = (
    "spans",
    "tensors",
    "tokens",
    "rounds",
    "judgements",
    "alternatives",
    "kv",
    "memory",
    "power",
    "frames",
)
GOLDEN_ROWS = {
    1: (105, 16, 119, 10, 0, 0, 100, 11, 0, 26),
    2: (480, 123, 67, 29, 31, 0, 49, 12, 0, 10),
    3: (30, 0, 82, 0, 0, 0, 82, 172, 89, 0),
    4: (30, 0, 82, 0, 0, 0, 82, 172, 89, 0),
    5: (144, 63, 16, 4, 11, 27, 12, 10, 0, 4),
    6: (159, 63, 57, 4, 11, 27, 53, 63, 28, 4),
    7: (147, 63, 23, 4, 13, 35, 20, 9, 0, 4),
}
GOLDEN_DIGESTS = {
    1: "8c83412c6319dcaebbc8f03de7fec6c46d0085dd721f8747a994a0dddbc7c015",
    2: "84db8736b137a708ba4ff519ad9d11c9bf14c8901f87924bf53c2941d50464fb",
    3: "1d9f229d0ed137823ab2d0901883b709364c5765de9029a54446b187e6a478d0",
    4: "1d9f229d0ed137823ab2d0901883b709364c5765de9029a54446b187e6a478d0",
    5: "fbab061f71363cffd209c368e75236e81ff2f9356841015e773e6a4af5539b62",
    6: "a57bee3d5093e74235b503f0b972f2a44de4b5311763f1945f034b7924754125",
    7: "640f91ae9598e9bf91d78ee35643bc500ebe0830709911479cb0f2ed55a61227",
}


@pytest.mark.parametrize("number", GOLDEN_ROWS)
def test_a_golden_session_reads_as_it_always_did(number: int) -> None:
    """The files were written once and are never written again; see golden/README."""
    path = GOLDEN / f"format_{number}.evprof"
    assert path.stat().st_size < 110_000
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        assert format_of(connection) == number
    session, book = golden(path.name)
    assert rows_of(session) == dict(zip(STREAMS_IN_ORDER, GOLDEN_ROWS[number], strict=True))
    assert digest_of(session, before_7=number < 7) == GOLDEN_DIGESTS[number]
    lazy = open_session(path)
    for run_id, run in lazy.runs.items():
        assert len(run.tokens) == len(book.runs[run_id].tokens)
        assert run.info == book.runs[run_id].info


def test_golden_format_1_tells_runs_and_pictures() -> None:
    _, book = golden("format_1.evprof")
    draft, target, speculative = book.runs.values()
    assert draft.info.text == "A car drives towards the camera on a winding road with trees along it."
    assert (target.info.mode, target.info.status) == ("side-by-side", "finished")
    assert sum(round_.accepted for round_ in speculative.rounds) == 28
    assert len(speculative.rejected) == 22
    assert [span.name for span in target.stages()] == ["load", "preprocess", "vision", "prefill", "decode"]
    assert draft.frames["draft"][0].png.startswith(b"\x89PNG")


def test_golden_format_2_tells_judgements_and_drafters() -> None:
    _, book = golden("format_2.evprof")
    model, drawn, lookup = book.runs.values()
    assert model.info.speculation.shared_ids == 765
    assert (model.info.speculation.kind, lookup.info.speculation.kind) == ("model", "lookup")
    assert [len(run.judgements) for run in (model, drawn, lookup)] == [14, 15, 2]
    rejected = next(record for record in drawn.judgements if not record.accepted)
    assert (rejected.draft_piece, rejected.target_piece) == (" crossing", " approaching")
    assert (rejected.draft_ppm, rejected.cross_ppm, rejected.overlap_ppm) == (463_924, 5_647, 539_284)
    assert {record.draft_ppm for record in lookup.judgements} == {-1}
    assert {energy_j(run) for run in book.runs.values()} == {None}, "not measured, never 0"
    assert not any(run.alternatives for run in book.runs.values())


def test_golden_format_3_tells_power() -> None:
    _, book = golden("format_3.evprof")
    first, second = book.runs.values()
    assert list(first.power) == list(second.power) == ["cuda:0"]
    assert {record.throttle_bits for record in second.power["cuda:0"]} == {0, 1, 0x20}
    assert energy_j(first) == pytest.approx(1187.2)


def test_golden_format_5_tells_alternatives() -> None:
    _, book = golden("format_5.evprof")
    (run,) = book.runs.values()
    token = run.tokens[3]
    record = run.alternatives_of(token)
    assert [found.piece for found in record.listed] == [" approaching", " crossing", " is", " moving", " The"]
    assert record.chance_of(token.token_id) == 0.99609375
    assert record.entropy_bits == 0.052


def test_golden_format_6_keeps_the_figures_of_a_run_without_rows() -> None:
    found = open_session(GOLDEN / "format_6.evprof")
    _, second, last = found.runs.values()
    assert (len(second.tokens), len(last.tokens)) == (41, 0)
    assert total_ms(last) == pytest.approx(5900.0)
    assert last.info.warnings == ["Its log was dropped to save room (evprof prune): only its figures are left."]
    assert [source["runs"] for source in found.facts["merged"]] == [1, 2]
    assert {(entry.depth, entry.judged) for run in found.runs.values() for entry in run.rounds} == {(-1, -1)}


def test_golden_format_7_tells_depth_and_judged_tokens_of_rounds() -> None:
    (run,) = golden("format_7.evprof")[1].runs.values()
    told = [(entry.hidden, entry.accepted, entry.depth, entry.judged) for entry in run.rounds]
    assert told == [(1, 1, 8, 2), (0, 5, 5, 5), (0, 5, 5, 5), (0, 1, 1, 1)]


def test_a_session_that_is_being_made_is_no_defect(tmp_path, monkeypatch):
    """Its header was whole when it was looked at, and what the connection saw was older."""
    path = tmp_path / "s.evprof"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE facts (text TEXT)")
    monkeypatch.setattr(opened, "check_header", lambda path: None)
    with pytest.raises(UserError, match="not whole yet"):
        load_session(path)


@pytest.mark.parametrize("name", ["format_1.evprof", "format_3.evprof"])
def test_an_older_session_with_a_hole_is_read_or_refused_in_a_sentence(name, tmp_path):
    """Also where its rows are no longer where its own index says."""
    whole, path = (GOLDEN / name).read_bytes(), tmp_path / name
    refused = 0
    for start in range(0, len(whole), 512):
        path.write_bytes(whole[:start] + bytes(540) + whole[start + 540 :])
        try:
            load_session(path)
        except UserError:
            refused += 1
    assert refused
