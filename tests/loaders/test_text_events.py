"""Events as text: every writer's habits are read alike, what is no event is named by its line, windows read little."""

from __future__ import annotations

import gzip
import math
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.budget import Budget
from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events import text_recording as texts
from evprof.loaders.events.opening import format_of, open_recording, read_events
from evprof.loaders.events.recording import EventRecording
from evprof.loaders.events.text_sniffing import TextLayout, is_comment, number_of, sniffed, tokens_of
from made_events import from_faery, same

Rows = list[tuple[int, int, int, int]]

# t in µs, x, y, p; nothing in it fits two orders of columns.
ROWS: Rows = [(100_000, 3, 5, 1), (100_040, 600, 0, 0), (100_040, 2, 7, 1), (1_234_567, 9, 479, 0)]


def listed(events: EventArray) -> Rows:
    columns = (events.t_us, events.x, events.y, events.p)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def read(folder: Path, text: str | bytes, name: str = "a.csv") -> Rows:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return listed(read_events(folder / name))


def lines(pattern: str, rows: Rows = ROWS, end: str = "\n") -> str:
    """One line per event; `s` is seconds, `sign` -1 or 1, `word` True or False."""
    return "".join(
        pattern.format(t=t, x=x, y=y, p=p, s=t / 1e6, ns=t * 1000, ms=t / 1e3, sign=p * 2 - 1, word=bool(p)) + end
        for t, x, y, p in rows
    )


WRITERS = {
    "faery": "t,x,y,on\n" + lines("{t},{x},{y},{p}"),
    "faery's sizes": "t,x@640,y@480,on\r\n" + lines("{t},{x},{y},{p}", end="\r\n"),
    "faery without a header": lines("{t},{x},{y},{p}"),
    "metavision": lines("{x},{y},{p},{t}"),
    "rpg": "640 480\n" + lines("{s:.9f} {x} {y} {p}"),
    "rpg without a size": lines("{s:.6f} {x} {y} {p}"),
    "array": lines("{x} {y} {t} {p}"),
    "savetxt": lines("{t:.18e} {x:.18e} {y:.18e} {p:.18e}"),
    "comment that names": "# x y p t\n" + lines("{x} {y} {p} {t}"),
    "other comments": "% recorded today\n# and more, of it\n\n" + lines("{t},{x},{y},{p}"),
    "semicolons": "x;y;polarity;timestamp\n" + lines("{x};{y};{p};{t}"),
    "tabs": lines("{t}\t{x}\t{y}\t{p}"),
    "blanks after commas": "t, x, y, p\n" + lines("{t}, {x}, {y}, {p}"),
    "aligned": lines("{t:>12} {x:>4} {y:>4} {p:>2}"),
    "windows": "t,x,y,p\r\n" + lines("{t},{x},{y},{p}", end="\r\n"),
    "byte order mark": "\ufefft,x,y,p\n" + lines("{t},{x},{y},{p}"),
    "signs": lines("{t},{x},{y},{sign}"),
    "signs first": "p,x,y,t\n" + lines("{sign},{x},{y},{t}"),
    "words": lines("{t},{x},{y},{word}"),
    "plus": lines("{t},{x},{y},+{p}"),
    "seconds named": "t_s,x,y,p\n" + lines("{s:.6f},{x},{y},{p}"),
    "seconds in brackets": "x,y,time [s],p\n" + lines("{x},{y},{s:.6f},{p}"),
    "milliseconds named": "x,y,timestamp_ms,p\n" + lines("{x},{y},{ms:.3f},{p}"),
    "nanoseconds named": "timestamp_ns,x,y,pol\n" + lines("{ns},{x},{y},{p}"),
    "microseconds named": "t_us,x,y,p\n" + lines("{t},{x},{y},{p}"),
    "whole floats": lines("{t:.1f},{x},{y},{p}"),
    "table with an index": ",x,y,t,p\n" + "".join(f"{n},{x},{y},{t},{p}\n" for n, (t, x, y, p) in enumerate(ROWS)),
    "quoted names": '"X","Y","T","P"\n' + lines("{x},{y},{t},{p}"),
    "more columns": "frame,p,x,y,t,score\n" + lines("0.25,{p},{x},{y},{t},7"),
    "no newline at the end": lines("{t},{x},{y},{p}").rstrip("\n"),
    "comment at the end": lines("{t},{x},{y},{p}") + "# end\n",
}


@pytest.mark.parametrize("name", list(WRITERS))
@pytest.mark.parametrize("packed", [False, True])
def test_every_writer_is_understood(tmp_path: Path, name: str, packed: bool) -> None:
    content = WRITERS[name].encode()
    assert read(tmp_path, gzip.compress(content) if packed else content) == ROWS


@pytest.mark.parametrize("separator", [b",", b";", b"\t", b" "])
@pytest.mark.parametrize("header", [True, False])
def test_what_faery_writes_reads_equal(tmp_path: Path, separator: bytes, header: bool) -> None:
    import faery

    random = np.random.default_rng(8)
    source = np.zeros(30_000, faery.EVENTS_DTYPE)
    source["t"] = np.sort(random.integers(0, 3_000_000, 30_000))
    source["x"], source["y"] = random.integers(0, 640, 30_000), random.integers(0, 480, 30_000)
    source["on"] = random.integers(0, 2, 30_000)
    stream = faery.events_stream_from_array(source, dimensions=(800, 600))
    stream.to_file(tmp_path / "a.csv", csv_separator=separator, csv_header=header)
    assert same(read_events(tmp_path / "a.csv"), from_faery(source))
    if header:
        with open_recording(tmp_path / "a.csv") as recording:
            assert (recording.info.width, recording.info.height) == (800, 600)


def test_the_sensor_size_in_the_first_line_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(WRITERS["rpg"])
    with open_recording(tmp_path / "a.txt") as recording:
        info = recording.info
    assert (info.format, info.events, info.width, info.height) == ("csv", 4, 640, 480)
    assert (info.t_min_us, info.t_max_us) == (100_000, 1_234_567)
    assert info.details == {"columns": "t, x, y, p", "time_unit": "s"}


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["0.1", "0.2"], [100_000, 200_000]),
        (["0.0000004", "0.0000005", "0.00000149"], [0, 1, 1]),
        (["1468940145.246061920", "1468940145.3"], [1_468_940_145_246_062, 1_468_940_145_300_000]),
        (["1600000000000000", "1600000000000001"], [1_600_000_000_000_000, 1_600_000_000_000_001]),
        (["1600000000123456789", "1600000000123457000"], [1_600_000_000_123_456, 1_600_000_000_123_457]),
        (["0.000000", "0.000000"], [0, 0]),
        (["-500", "20", "700"], [-500, 20, 700]),
        (["1e6", "2.5e6"], [1_000_000, 2_500_000]),
    ],
)
def test_units_of_time(tmp_path: Path, times: list[str], expected: list[int]) -> None:
    text = "t,x,y,p\n" + "".join(f"{t},700,2,1\n" for t in times)
    assert [row[0] for row in read(tmp_path, text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "1 2 1 0\n2 3 2 1\n3 4 3 1\n",  # t,x,y,p and x,y,t,p both fit
        "5,5,1,1\n6,6,0,1\n7,7,1,1\n",  # x,y,p,t too
        "70000,-80000,3,1\n70001,-80000,3,1\n",  # none
        "1,2,70000,5\n1,3,70001,5\n0,4,70002,5\n",  # only orders nobody writes
    ],
)
def test_columns_that_could_be_others_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"a\.csv: (cannot tell which|is not an event recording)"):
        read(tmp_path, text)


def test_unnamed_columns_beside_the_four_are_refused_and_names_help(tmp_path: Path) -> None:
    rows = lines("{t},{x},{y},{p},17")
    with pytest.raises(UserError, match="not an event recording"):
        read(tmp_path, rows)
    with pytest.raises(UserError, match="name them"):
        texts.open_recording(tmp_path / "a.csv")
    assert read(tmp_path, "t,x,y,p,temperature\n" + rows) == ROWS
    with pytest.raises(UserError, match="two of its columns are called t"):
        read(tmp_path, "t,x,y,p,timestamp\n" + rows)


def test_times_that_run_backwards_do_not_hide_the_order(tmp_path: Path) -> None:
    rows = [ROWS[3], *ROWS[:3]]
    assert read(tmp_path, lines("{x},{y},{p},{t}", rows)) == rows
    assert read(tmp_path, lines("{t},{x},{y},{p}", rows)) == rows


FOREIGN = {
    "manifest": "id,events,video,question\n1,a.npy,a.mp4,What happens?\n2,b.npy,b.mp4,And here?\n",
    "manifest of numbers": "id,events,video,start_ms\n1,2,3,4\n2,3,4,5\n",
    "measurements": "run,ttft_ms,tokens,kv_bytes\n1,20.5,44,1000\n2,21.5,44,1000\n",
    "json": '{"a": [1, 2, 3, 4]}\n',
    "rows of json": "[[1, 2, 3, 4],\n [5, 6, 7, 8]]\n",
    "toml": "x = 1\ny = 2\nt = 3\np = 4\n",
    "prose": "the quick brown fox\njumps over the lazy dog\n",
    "three columns": "1,2,3\n4,5,6\n",
    "poses": "1.5 0.1 0.2 0.3 0.0 0.0 0.0 1.0\n1.6 0.1 0.2 0.3 0.0 0.0 0.0 1.0\n",
    "inertial measurements": "0.01 9.8 0.1 0.2 0.01 0.02 0.03\n0.02 9.8 0.1 0.2 0.01 0.02 0.03\n",
    "no polarities": "100000,3,4,9\n100001,3,4,9\n",
    "one row": "100000,2,3,1\n",
    "names without rows": "t,x,y,p\n",
    "two kinds": "1,2,3,4\na,b,c,d\n",
    "binary": "1,2,3,4\n5,6,7,8\n\0\1",
    "empty lines": "\n\n\n",
    "addresses": "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4\n10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4\n",
}


@pytest.mark.parametrize("name", list(FOREIGN))
def test_other_texts_are_not_claimed(name: str) -> None:
    content = FOREIGN[name].encode()
    for head in (content, gzip.compress(content)):
        form = format_of(head)
        assert form is None or form.name != "csv"


# --- lines built alike, and others ------------------------------------------------------------------------------------

number_of_events = st.lists(
    st.tuples(st.integers(0, 10**11), st.integers(0, 16_383), st.integers(0, 16_383), st.integers(0, 1)),
    min_size=1,
    max_size=40,
)
PATTERNS = [
    ("t,x,y,p", "{t},{x},{y},{p}"),
    ("x y p t", "{x} {y} {p} {t}"),
    ("t_s;x;y;p", "{s:.6f};{x};{y};{p}"),
    ("t_s\tx\ty\tp", "{s:.9f}\t{x}\t{y}\t{p}"),
    ("t_ms,x,y,p", "{ms:.3f},{x},{y},{sign}"),
    ("p,t_ns,x,y", "{sign},{ns},{x},{y}"),
    ("a,p,b,t,x,y", "7,{word},33,{t},{x},{y}"),
]


def slow(block: bytes, layout: TextLayout) -> Rows | None:
    """The events of lines, token by token; None where a line is none."""
    rows: Rows = []
    for line in block.replace(b"\r\n", b"\n").split(b"\n"):
        if is_comment(line):
            continue
        tokens = tokens_of(line, layout.delimiter)
        values = [number_of(token) for token in tokens]
        if len(tokens) != layout.tokens or None in values:
            return None
        x, y, p = (float(values[layout.columns[name]] or 0) for name in "xyp")
        if not (0 <= x < 16_384 and 0 <= y < 16_384 and -1 <= p <= 1 and x % 1 == y % 1 == p % 1 == 0):
            return None
        text = tokens[layout.columns["t"]].decode()
        time = Fraction(text) * Fraction(10) ** layout.exponent
        rows.append(
            (
                math.floor(time + Fraction(1, 2)) if layout.exponent >= 0 else math.floor(time),
                int(x),
                int(y),
                int(p > 0),
            )
        )
    return rows


@given(number_of_events, st.sampled_from(PATTERNS))
def test_conversion_gives_what_was_written(rows: Rows, writer: tuple[str, str]) -> None:
    names, pattern = writer
    # One regular line in front, so that sniffing has two rows.
    rows = [(rows[0][0], 1, 1, 1), *rows]
    block = lines(pattern, rows).encode()
    layout = sniffed(f"{names}\n".encode() + block, None, "here")
    found = texts.converted(block, layout)
    assert found is not None
    assert listed(found) == rows == slow(block, layout)


DAMAGE = [*(bytes([byte]) for byte in b"-., \n019e#+\t\0"), b"", b"\r\n", b"99999", b"True", b"-1"]


@given(
    number_of_events,
    st.sampled_from(PATTERNS),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2), st.sampled_from(DAMAGE)), max_size=3),
)
def test_damaged_lines_are_refused_or_give_what_they_say(
    rows: Rows, writer: tuple[str, str], damage: list[tuple[float, int, bytes]]
) -> None:
    names, pattern = writer
    rows = [(rows[0][0], 1, 1, 1), *rows]
    block = lines(pattern, rows).encode()
    layout = sniffed(f"{names}\n".encode() + block, None, "here")
    for place, removed, added in damage:
        at = int(place * len(block))
        block = block[:at] + added + block[at + removed :]
    if (found := texts.converted(block, layout)) is not None:
        expected = slow(block, layout)
        assert expected is not None
        assert [row[1:] for row in listed(found)] == [row[1:] for row in expected]
        # Seconds in the year 5000 are no microseconds any more once they have been a float.
        for (t_us, *_), (exact, *_) in zip(listed(found), expected, strict=True):
            assert abs(t_us - exact) <= max(abs(exact) // 2**50, layout.exponent != 0)


BAD_LINES = [
    ("5,1,1", "it has 3 values where 4 are expected"),
    ("5,1,1,1,1", "it has 5 values where 4 are expected"),
    ("5,1,x,1", "'x' is no number"),
    ("5,1,,1", "'' is no number"),
    ("5,70000,1,1", "x is 70000"),
    ("5,1,-1,1", "y is -1"),
    ("5,-1,1,1", "x is -1"),
    ("5,1.5,1,1", "x is 1.5"),
    ("5,1,1,2", "p is 2"),
    ("5,1,1,11", "p is 11"),
    ("5,1,1,-2", "p is -2"),
    ("nan,1,1,1", "'nan' is no number"),
    ("1e300,1,1,1", "no clock shows"),
    ("1e308,1,1,1", "no clock shows"),
    ("1e999,1,1,1", "is no number"),
    ("99999999999999999999999,1,1,1", "no clock shows"),
    ("9999999999999999999,1,1,1", "no clock shows"),
    ("5,1,1,1_0", "no number"),
    ("--5,1,1,1", "no number"),
    ("garbage", "1 values"),
    ("\u0665,1,1,1", "is no number"),
    ("5,1,1,\0", "is no number"),
]


@pytest.mark.parametrize(("line", "words"), BAD_LINES)
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: str, words: str, packed: bool) -> None:
    good = lines("{t},{x},{y},{p}", ROWS * 300)
    content = ("# comment\nt_us,x,y,p\n" + good + line + "\n" + good).encode()
    with pytest.raises(UserError) as caught:
        read(tmp_path, gzip.compress(content) if packed else content)
    assert f"a.csv: line {2 + 1200 + 1} is no event" in caught.value.sentence
    assert words in caught.value.sentence
    assert "\n" not in caught.value.sentence


def test_minus_one_elsewhere_than_in_polarities_is_not_taken_for_nought(tmp_path: Path) -> None:
    text = "t,x,y,p\n100,5,5,1\n101,-1,5,01\n102,5,5,1\n"
    with pytest.raises(UserError, match="line 3 is no event"):
        read(tmp_path, text)
    assert [row[0] for row in read(tmp_path, "t,x,y,p\n-1,5,5,1\n-1,5,5,-1\n")] == [-1, -1]


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_CHUNK_BYTES", 1 << 17)
    content = lines("{t},{x},{y},{p}").encode() + b"7" * (1 << 18) + b",1,1,1\n"
    for packed in (False, True):
        with pytest.raises(UserError, match=r"longer than|is no event"):
            read(tmp_path, gzip.compress(content) if packed else content)


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def _as_if_long(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"_READ_WHOLE_BYTES": 1000, "_LEAST_PIECE": 2000, "_CHUNK_BYTES": 30_000, "_SNIFFED_BYTES": 5000}
    for name, value in small.items():
        monkeypatch.setattr(texts, name, value)


def made(count: int = 20_000, *, disorder_us: int = 0) -> Rows:
    random = np.random.default_rng(4)
    t = np.sort(random.integers(1_000_000, 2_000_000, count)) + random.integers(0, disorder_us + 1, count)
    x, y, p = random.integers(0, 640, count), random.integers(0, 480, count), random.integers(0, 2, count)
    return list(zip(t.tolist(), x.tolist(), y.tolist(), p.tolist(), strict=True))


def check_windows(recording: EventRecording, rows: Rows) -> None:
    for start, stop in ((1_500_000, 1_510_000), (0, 1_000_100), (1_999_000, 2**60), (-(2**60), 2**60), (9, 9), (5, 1)):
        assert listed(recording.read_time(start, stop)) == [row for row in rows if start <= row[0] < stop]
    assert listed(recording.read()) == rows


@pytest.mark.usefixtures("_as_if_long")
@pytest.mark.parametrize("pattern", ["{t},{x},{y},{p}", "{s:.6f} {x} {y} {p}", "{x},{y},{sign},{t}"])
def test_windows_are_bisected(tmp_path: Path, pattern: str) -> None:
    rows = made()
    (tmp_path / "a.csv").write_text("# comment\n" + lines(pattern, rows))
    with open_recording(tmp_path / "a.csv") as recording:
        assert isinstance(recording, texts.Text)
        assert (recording.info.t_min_us, recording.info.t_max_us) == (rows[0][0], rows[-1][0])
        assert recording.origin_us() == rows[0][0]
        before = recording.bytes_read
        found = recording.read_time(1_500_000, 1_501_000)
        assert 0 < len(found) < 100
        assert recording.bytes_read - before < 12_000
        check_windows(recording, rows)


@pytest.mark.usefixtures("_as_if_long")
def test_windows_of_texts_with_comments_and_disorder(tmp_path: Path) -> None:
    rows = made(disorder_us=100)
    text = (
        lines("{t},{x},{y},{p}", rows[:9000]) + "# pause\n" * 2000 + "\n" * 3000 + lines("{t},{x},{y},{p}", rows[9000:])
    )
    (tmp_path / "a.csv").write_text(text + "# end\n" * 1000)
    with open_recording(tmp_path / "a.csv") as recording:
        check_windows(recording, rows)


@pytest.mark.usefixtures("_as_if_long")
def test_windows_of_a_text_out_of_order(tmp_path: Path) -> None:
    rows = made()
    rows = rows[12_000:] + rows[:12_000]
    (tmp_path / "a.csv").write_text(lines("{t},{x},{y},{p}", rows))
    with open_recording(tmp_path / "a.csv") as recording:
        assert recording.info.t_min_us is None
        check_windows(recording, rows)


@pytest.mark.usefixtures("_as_if_long")
def test_windows_of_a_packed_text(tmp_path: Path) -> None:
    rows = made()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(("640 480\n" + lines("{s:.6f} {x} {y} {p}", rows)).encode()))
    with open_recording(tmp_path / "a.csv.gz") as recording:
        assert isinstance(recording, texts.PackedText)
        assert (recording.info.width, recording.info.height) == (640, 480)
        assert recording.origin_us() == rows[0][0]
        check_windows(recording, rows)


@pytest.mark.usefixtures("_as_if_long")
def test_a_bad_line_far_inside_is_named_by_its_number(tmp_path: Path) -> None:
    text = lines("{t},{x},{y},{p}", made()).split("\n")
    text[15_000] = "oops"
    (tmp_path / "a.csv").write_text("\n".join(text))
    with open_recording(tmp_path / "a.csv") as recording:
        assert len(recording.read_time(1_000_000, 1_100_000)) > 1000
        for ask in (recording.read, lambda: recording.read_time(1_740_000, 1_760_000)):
            with pytest.raises(UserError, match=r"line 15001 is no event"):
                ask()


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "Budget", partial(Budget, spare=1 << 20))
    with pytest.raises(UserError, match="made to fill the memory"):
        read(tmp_path, gzip.compress(b"100000,5,5,1\n" * 400_000))


def test_cut_and_wrong_gzip_files(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = [
        (int(t), int(x), 5, 1) for t, x in zip(range(100_000, 110_000), random.integers(0, 640, 10_000), strict=True)
    ]
    whole = gzip.compress(lines("{t},{x},{y},{p}", rows).encode())
    with pytest.raises(UserError, match="damaged or cut short"):
        read(tmp_path, whole[:-40])
    with pytest.raises(UserError, match="damaged"):
        read(tmp_path, whole[:-6] + b"\0" * 6)
