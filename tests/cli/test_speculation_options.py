"""Who drafts, how much and when, asked for on the command line: what is understood, refused, computed and told."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from described_adapter import describe_adapter
from evprof.cli import build_parser
from evprof.cli.run.command import requests_of
from evprof.core.request import RunRequest
from evprof.core.vocabulary.speculation import SpeculationSettings

pytest.importorskip("torch")


def asked(*words: object) -> RunRequest:
    return requests_of(build_parser().parse_args(["run", *map(str, words)]))[0]


def test_by_itself_the_draft_model_drafts_as_ever() -> None:
    assert asked("--mode", "speculative").settings.speculation == SpeculationSettings()
    assert asked().mode == "side-by-side"


@pytest.mark.parametrize("drafter", ["model", "lookup", "self"])
def test_naming_a_drafter_asks_for_speculation(drafter: str) -> None:
    request = asked("--drafter", drafter)
    assert (request.mode, request.settings.speculation.drafter) == ("speculative", drafter)
    assert request.roles == (("draft", "target") if drafter == "model" else ("target",))


def test_every_option_reaches_its_setting(tmp_path: Path) -> None:
    head = describe_adapter(tmp_path / "head", "eagle")
    words = ["--drafter", head, "--draft-length", "budgeted", "--draft-tree", "3,2,1", "--no-judgements"]
    assert asked(*words).settings.speculation == SpeculationSettings(
        drafter="eagle", adapter=str(head), length="budgeted", tree="3,2,1", judges=False
    )
    words = ["--mode", "parallel-prefill", "--draft-begins", "prefill", "--hidden-tokens", "0"]
    words += ["--verify", "last-chunk", "--afterwards", "rounds"]
    assert asked(*words).settings.speculation == SpeculationSettings(
        begins="prefill", hidden=0, verify="last-chunk", afterwards="rounds"
    )


def test_an_adapter_says_by_its_kind_who_drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, maps = describe_adapter(tmp_path / "counts", "ngram"), describe_adapter(tmp_path / "maps", "kv")
    for words in (["--drafter", counts], ["--adapter", counts], ["--drafter", "ngram", "--adapter", counts]):
        request = asked(*words)
        assert request.mode == "speculative"
        assert (request.settings.speculation.drafter, request.settings.speculation.adapter) == ("ngram", str(counts))
    request = asked("--adapter", maps)
    assert (request.mode, request.settings.speculation.drafter) == ("kv-adapted", "model")
    # A run may be repeated from any place.
    monkeypatch.chdir(tmp_path)
    assert asked("--adapter", "counts").settings.speculation.adapter == str(counts)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("--drafter lookpu", 2, "did you mean lookup?"),
        ("--drafter ngram", 2, "name its folder with --adapter"),
        ("--drafter lookup --mode draft", 2, "mode draft has none"),
        ("--adapter nowhere", 1, "is no trained adapter"),
        ("--drafter eagle --adapter COUNTS", 2, "of kind ngram, not eagle"),
        ("--drafter MAPS --adapter COUNTS", 2, "leave one of them out"),
        ("--mode speculative --adapter MAPS", 2, "choose --mode kv-adapted"),
        ("--mode kv-adapted --adapter COUNTS", 2, "choose --mode speculative"),
        ("--mode kv-adapted", 2, "needs a trained map"),
        ("--mode parallel-prefill --drafter lookup", 2, "Parallel prefill drafts with the draft model"),
        ("--mode speculative --draft-tree 3,2", 2, "Only some drafters draft trees"),
        ("--mode parallel-prefill --hidden-tokens -1", 2, "--hidden-tokens must be 0 or more"),
        ("--drafter lookup --early-exit 2", 2, "Early exit changes the answer"),
    ],
)
def test_what_means_nothing_is_refused(evprof, tmp_path, words: str, code: int, sentence: str) -> None:
    places = {
        "COUNTS": describe_adapter(tmp_path / "counts", "ngram"),
        "MAPS": describe_adapter(tmp_path / "maps", "kv"),
    }
    found = evprof("run", *(places.get(word, word) for word in words.split()))
    assert (found.code, found.output) == (code, "")
    assert sentence in found.errors
    assert found.errors.count("\n") == 1


@pytest.fixture
def counted(evprof: Callable[..., Any], computed: None, tmp_path: Path) -> Path:
    """An adapter that knows what the bundled target says of the bundled sample."""
    import threading

    import torch

    from engines.adapters.folder import save_adapter
    from engines.loading.weights import load_model
    from engines.training.example import Example
    from engines.training.trainees import NgramTrainee
    from evprof.core.vocabulary.generation import ModelChoice
    from evprof.loaders.adapters import AdapterInfo
    from evprof.run.requests import BUNDLED_TARGET

    model = load_model(ModelChoice(BUNDLED_TARGET), "target", lambda *_: None, threading.Event())
    (plain,) = evprof("run", "--mode", "target", "-o", tmp_path / "plain.evprof", "--json").document["runs"]
    said = [plain["text"]]
    nothing = torch.empty(0, 1)
    rows = model.language_model.rows
    trainee = NgramTrainee(rows)
    trainee.fit(
        [
            Example(
                text, "?", torch.tensor([*model.vocabulary.encode(text), 2]), torch.empty(0), nothing, nothing, (0, 0)
            )
            for text in said
        ]
    )
    hidden = model.language_model.config.hidden_size
    info = AdapterInfo(tmp_path / "counts", "ngram", "counts", BUNDLED_TARGET, None, hidden, None, rows)
    info = AdapterInfo(**{**vars(info), "config": trainee.config()})
    return save_adapter(info, trainee.tensors(), "# Counts of a few sentences\n").folder


@pytest.mark.usefixtures("computed")
def test_drafters_without_a_model_say_what_the_target_says(evprof, tmp_path, counted: Path) -> None:
    """On the bundled sample, really computed; settings are told, and the report's command asks the same again."""
    path = tmp_path / "s.evprof"
    common = ("--max-new-tokens", 40, "-o", path, "--json")
    (plain,) = evprof("run", "--mode", "target", *common).document["runs"]
    found = {}
    for words in (["--drafter", "lookup", "--no-judgements"], ["--drafter", counted, "--draft-length", "heuristic"]):
        document = evprof("run", *words, "--gamma", 6, *common).document
        (run,) = document["runs"]
        assert run["status"] == "finished", run["error"]
        assert run["token_ids"] == plain["token_ids"]
        assert run["draft"] is None
        found[run["settings"]["speculation"]["drafter"]] = run
    assert found["lookup"]["settings"]["speculation"]["judges"] is False
    told = found["ngram"]["settings"]["speculation"]
    assert (told["adapter"], told["length"]) == (str(counted), "heuristic")
    assert "speculation" not in plain["settings"]
    assert found["ngram"]["speculation"]["accepted"] >= 8
    report = tmp_path / "r.md"
    assert evprof("report", path, "-o", report).code == 0
    lines = [line for line in report.read_text(encoding="utf-8").splitlines() if line.startswith("evprof run")]
    requests = [requests_of(build_parser().parse_args(shlex.split(line)[1:]))[0] for line in lines]
    assert [one.settings.speculation for one in requests] == [
        SpeculationSettings(),
        SpeculationSettings(drafter="lookup", gamma=6, judges=False),
        SpeculationSettings(drafter="ngram", adapter=str(counted), gamma=6, length="heuristic"),
    ]


@pytest.mark.usefixtures("computed")
def test_an_adapter_of_another_model_is_refused_by_its_run(evprof, tmp_path, counted: Path) -> None:
    (counted / "adapter.json").write_text(
        (counted / "adapter.json").read_text("utf-8").replace('"vocabulary": 768', '"vocabulary": 900'), "utf-8"
    )
    found = evprof("run", "--drafter", counted, "--max-new-tokens", 4, "-o", tmp_path / "s.evprof", "--json")
    assert found.code == 1
    assert "vocabulary 900" in found.document["runs"][0]["error"]


def test_vocabularies_of_a_pair_are_compared(evprof: Callable[..., Any]) -> None:
    words = ("inspect", "evprof-tiny-eventgpt", "--against", "evprof-tiny-video-llava")
    vocabulary = evprof(*words, "--json").document["vocabulary"]
    assert vocabulary["target"] == "evprof-tiny-video-llava"
    assert (vocabulary["alignment"], vocabulary["shared_ids"], vocabulary["same_number"]) == ("shared", 765, True)
    assert (vocabulary["only_draft_count"], vocabulary["only_target_count"]) == (0, 3)
    assert re.search(r"shared_ids +765", evprof(*words).output)
