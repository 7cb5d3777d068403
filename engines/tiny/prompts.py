"""The two published prompt layouts as pieces of text around one visual slot."""

from __future__ import annotations

from collections.abc import Sequence

EVENT_SLOT = -200
"""Stands for the event tokens in EventGPT's ids."""

_EVENT_SYSTEM = (
    "A chat between a curious human and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the human's questions."
)


def event_pieces(question: str) -> tuple[str, str]:
    """EventGPT (``eventgpt_v1``): text before and after the event tokens."""
    return f"{_EVENT_SYSTEM} USER: <ev_start>", f"<ev_end>\n{question} ASSISTANT:"


def video_pieces(question: str) -> tuple[str, str]:
    """Video-LLaVA: text before and after the video tokens."""
    return "USER: ", f"\n{question} ASSISTANT:"


def every_template_text(questions: Sequence[str]) -> list[str]:
    """All text the two layouts put around ``questions``, for training the tokenizer."""
    return [
        piece
        for question in questions
        for pieces in (event_pieces(question), video_pieces(question))
        for piece in pieces
    ]
