"""What the scripted pair of models is: names, lengths, sentences, and how long each stage takes.

Plausible figures that nobody measured; `scripted_engine` plays them back.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from evprof.core.records import DRAFT
from evprof.core.run_info import LengthFacts, ModelFacts


@dataclass(frozen=True)
class ScriptedModel:
    """What one side of the script is and how long its stages take, in ms at speed 1."""

    facts: ModelFacts
    lengths: LengthFacts
    answer: tuple[str, ...]
    load_ms: float
    preprocess_ms: float
    vision_ms: float
    prefill_ms: float
    token_ms: float
    pictures: int

    @property
    def kv_position_bytes(self) -> int:
        """KV bytes of one position."""
        facts = self.facts
        return 2 * facts.layers * facts.kv_heads * facts.head_dim * facts.kv_element_bytes


def _pieces(sentence: str) -> tuple[str, ...]:
    pieces: list[str] = []
    for word in sentence.split():
        pieces.append(" " + word[:5])
        if len(word) > 5:
            pieces.append(word[5:])
    return (*pieces, "</s>")


def _facts(name: str, family: str, layers: int, weight_bytes: int, template: str) -> ModelFacts:
    return ModelFacts(
        name=name,
        family=family,
        model_type=family,
        parameters=weight_bytes // 2,
        weight_bytes=weight_bytes,
        dtype="bfloat16",
        device="scripted",
        quantization=None,
        layers=layers,
        kv_heads=8,
        head_dim=64,
        kv_element_bytes=2,
        context_limit=2048,
        attention="sdpa",
        cache="dynamic",
        prompt_template=template,
    )


SCRIPTED_DRAFT = ScriptedModel(
    facts=_facts("scripted-eventgpt", "eventgpt", 4, 5_200_000, "USER: <event>\n{prompt} ASSISTANT:"),
    lengths=LengthFacts(input=641, system=35, text=23, visual=583),
    answer=_pieces("A car drives towards the camera on a winding road with trees along it."),
    load_ms=40,
    preprocess_ms=60,
    vision_ms=180,
    prefill_ms=220,
    token_ms=45,
    pictures=5,
)

SCRIPTED_TARGET = ScriptedModel(
    facts=_facts("scripted-video-llava", "video_llava", 12, 7_900_000, "USER: <video>\n{prompt} ASSISTANT:"),
    lengths=LengthFacts(input=2089, system=0, text=33, visual=2056),
    answer=_pieces(
        "A red car drives towards the camera on a winding road at daylight. Tall trees stand along both sides of the "
        "road, and the sky above them is bright and clear."
    ),
    load_ms=150,
    preprocess_ms=120,
    vision_ms=420,
    prefill_ms=700,
    token_ms=60,
    pictures=8,
)


@dataclass(frozen=True)
class Script:
    """Who plays, and how many tokens of each round the target accepts, over and over.

    `hidden` is how many tokens are drafted inside a prefill at most, and how many of them are accepted.
    """

    draft: ScriptedModel = SCRIPTED_DRAFT
    target: ScriptedModel = SCRIPTED_TARGET
    accepted: tuple[int, ...] = (3, 5, 1, 4, 0, 2)
    hidden: tuple[int, int] = (8, 5)
    setup_ms: float = 300


def token_id_of(piece: str) -> int:
    return sum(ord(letter) * (place + 3) for place, letter in enumerate(piece)) % 997


def picture_of(role: str, index: int, count: int) -> bytes:
    """A road with something on it that comes nearer: red and blue on white for events, in colours for video."""
    from PIL import Image, ImageDraw

    is_events = role == DRAFT
    image = Image.new("RGB", (160, 120), (255, 255, 255) if is_events else (150, 190, 235))
    pen = ImageDraw.Draw(image)
    road = (200, 40, 40) if is_events else (90, 90, 95)
    if not is_events:
        pen.rectangle((0, 70, 160, 120), fill=(70, 130, 70))
        pen.polygon([(75, 70), (85, 70), (130, 120), (30, 120)], fill=road)
    else:
        pen.line([(75, 70), (30, 120)], fill=road, width=2)
        pen.line([(85, 70), (130, 120)], fill=(40, 40, 200), width=2)
    size = 6 + 22 * index // max(count - 1, 1)
    box = (80 - size, 78 - size // 2, 80 + size, 78 + size)
    if is_events:
        pen.rectangle(box, outline=(40, 40, 200), width=2)
    else:
        pen.rectangle(box, fill=(190, 40, 40))
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    return stream.getvalue()
