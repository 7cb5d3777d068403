"""Prompt layouts: the published text around a question, with slots where visual embeddings go."""

from __future__ import annotations

from dataclasses import dataclass

from engines.tokens.tokenization import FileVocabulary, Vocabulary
from evprof.core.errors import UserError

SLOT = -200


@dataclass(frozen=True)
class PromptTemplate:
    """`before` + slots + `after` with `{question}`; `slot` is how one slot is spelled. `system` is the constant part of
    `before`; `between` separates the slots."""

    name: str
    slot: str
    before: str
    after: str
    system: str = ""
    between: str = ""

    def chunks(self, question: str, slots: int = 1) -> list[str]:
        """The text between slots: `slots` + 1 stretches. Raises UserError when the question itself spells a slot."""
        if self.slot in question:
            raise UserError(f"The prompt contains {self.slot}, which marks the place of the input; leave it out.")
        return [self.before, *[self.between] * (slots - 1), self.after.format(question=question)]


def chatml(name: str, slot: str, system: str = "You are a helpful assistant.", *, between: str = "") -> PromptTemplate:
    """Qwen2's layout: turns between `<|im_start|>` and `<|im_end|>`, by default with Qwen's words for the system."""
    opening = f"<|im_start|>system\n{system}<|im_end|>\n"
    asked = "\n{question}<|im_end|>\n<|im_start|>assistant\n"
    return PromptTemplate(name, slot, f"{opening}<|im_start|>user\n", asked, system=opening, between=between)


@dataclass(frozen=True)
class PromptIds:
    """Token ids with SLOT where visual embeddings go; `system` counts the leading ids that are no part of the turn."""

    ids: tuple[int, ...]
    system: int


def prompt_ids(vocabulary: Vocabulary, template: PromptTemplate, question: str, slots: int = 1) -> PromptIds:
    """The ids of a whole prompt: the beginning of a sentence if there is one, the text stretches, SLOT between. Each
    stretch is tokenized separately, as the slow Llama tokenizer does; a tokenizer.json with a slot token gets the whole
    text."""
    chunks = template.chunks(question, slots)
    slot_id = vocabulary.token_id(template.slot)
    if slot_id is not None and isinstance(vocabulary, FileVocabulary):
        body = [SLOT if index == slot_id else index for index in vocabulary.encode(template.slot.join(chunks))]
    else:
        body = []
        for number, chunk in enumerate(chunks):
            body += [SLOT] if number else []
            body += vocabulary.encode(chunk) if chunk else []
    system_ids = vocabulary.encode(template.system) if template.system else []
    same = 0
    while same < len(system_ids) and body[same] == system_ids[same]:
        same += 1
    begin = () if vocabulary.bos_id is None else (vocabulary.bos_id,)
    return PromptIds((*begin, *body), len(begin) + same)
