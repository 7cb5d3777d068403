"""The pair's shared vocabulary: a sentencepiece BPE model, and the same model as a ``tokenizer.json``.

Built like Llama's: byte fallback, identity normalisation, a dummy space in front, ``<unk>`` 0, ``<s>`` 1, ``</s>`` 2.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import numpy as np
import sentencepiece
from tokenizers import AddedToken, Tokenizer, decoders, normalizers
from tokenizers.models import BPE

from bundled_pair.attributes import EVENT_VISIBLE, VIDEO_VISIBLE, draw
from bundled_pair.grammar import SUBJECTS, draw_answer, draw_question
from engines.families.event_model import EVENTGPT_V1
from engines.families.video_llava import VideoLlavaFamily

PIECES = 765
"""Size of the shared vocabulary; Video-LLaVA's three own tokens come after it, 768 rows in all."""

_CORPUS_SCENES = 250

VIDEO_LLAVA_TOKENS = ("<image>", "<video>", "<pad>")
BOS_ID, EOS_ID = 1, 2


def corpus() -> list[str]:
    """Questions as both layouts spell them, and many answers of both models, so that common words become pieces."""
    rng = np.random.default_rng(5)
    lines: list[str] = []
    for number in range(_CORPUS_SCENES):
        scene = draw(rng)
        for subject in SUBJECTS:
            question = draw_question(rng, scene, subject, held_out=False)
            layout = EVENTGPT_V1 if number % 2 else VideoLlavaFamily.template
            lines += layout.chunks(question.text)[number > 1 :]
            for visible in (EVENT_VISIBLE, VIDEO_VISIBLE):
                lines.append(draw_answer(rng, scene, question, visible, held_out=False).text)
    return [line for text in lines for line in text.split("\n") if line]


def train() -> bytes:
    """A serialised sentencepiece model; the same bytes' worth of pieces every time."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_writer=model,
        model_type="bpe",
        vocab_size=PIECES,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=True,
        allow_whitespace_only_pieces=True,
        character_coverage=1.0,
        unk_id=0,
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        pad_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def load(model: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def fast(model: bytes, extra_tokens: Sequence[str] = VIDEO_LLAVA_TOKENS) -> Tokenizer:
    """The same vocabulary and merges for the ``tokenizers`` library, with ``extra_tokens`` above the shared ids."""
    processor = load(model)
    pieces = [processor.id_to_piece(index) for index in range(processor.get_piece_size())]
    ranks = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(
        BPE(ranks, _merges(processor, ranks), unk_token=pieces[0], fuse_unk=True, byte_fallback=True, dropout=None)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1)]
    )
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in (*pieces[:3], *extra_tokens)]
    )
    return tokenizer


def _merges(processor: sentencepiece.SentencePieceProcessor, ranks: dict[str, int]) -> list[tuple[str, str]]:
    """BPE merges in sentencepiece's order of preference: a piece of higher score is made first, however it is split."""
    merges: list[tuple[float, int, int, tuple[str, str]]] = []
    for piece, index in ranks.items():
        if processor.is_byte(index) or processor.is_control(index) or processor.is_unknown(index):
            continue
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ranks and right in ranks:
                merges.append((-processor.get_score(index), ranks[left], ranks[right], (left, right)))
    return [pair for *_, pair in sorted(merges)]


def fast_json(model: bytes) -> bytes:
    """``tokenizer.json`` of the Video-LLaVA side."""
    return json.dumps(json.loads(fast(model).to_str()), ensure_ascii=False, indent=1).encode()
