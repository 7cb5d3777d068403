"""How many tokens the next round drafts: always as many, by how the last round went, or by measured cost.

The heuristic is transformers' "heuristic" schedule; the budget is the gamma that maximises tokens per time,
tau(gamma) / (gamma c + v(gamma)), with acceptance and costs as measured in the rounds so far.
"""

from __future__ import annotations

from evprof.metrics.speculation.outcome import expected_tokens_per_round


class DraftLength:
    """The number of tokens to draft: always `gamma`. `most` is the largest number it ever gives."""

    def __init__(self, gamma: int) -> None:
        self.most = self._gamma = gamma

    def next(self) -> int:
        return self._gamma

    def learn(self, drafted: int, accepted: int, draft_ns: int, verify_ns: int) -> None:
        return


class Heuristic(DraftLength):
    """Two more after a round that was accepted whole, one fewer after any other; from 1 to `most`, from `gamma` on."""

    def __init__(self, gamma: int, most: int) -> None:
        self._count = gamma
        self.most = most

    def next(self) -> int:
        return self._count

    def learn(self, drafted: int, accepted: int, draft_ns: int, verify_ns: int) -> None:
        if drafted == 0:
            return
        change = 2 if accepted == drafted else -1
        self._count = min(self.most, max(1, self._count + change))


class Budgeted(DraftLength):
    """The number with the most tokens per time, from 1 to `most`; `gamma` until a round was measured. Acceptance starts
    at one half with the weight of two tokens and fades. Verification costs are linear in the width after two widths."""

    _FADE = 0.9

    def __init__(self, gamma: int, most: int) -> None:
        self._gamma, self.most = gamma, most
        self._accepted, self._judged = 1.0, 2.0
        self._draft_ns = self._drafted = 0.0
        self._verify: dict[int, float] = {}

    def next(self) -> int:
        if not self._verify:
            return self._gamma
        return max(range(1, self.most + 1), key=self._pace)

    def learn(self, drafted: int, accepted: int, draft_ns: int, verify_ns: int) -> None:
        if drafted == 0:
            return
        judged = accepted + (accepted < drafted)
        self._accepted = self._FADE * self._accepted + accepted
        self._judged = self._FADE * self._judged + judged
        self._draft_ns = self._FADE * self._draft_ns + draft_ns
        self._drafted = self._FADE * self._drafted + drafted
        known = self._verify.get(drafted)
        self._verify[drafted] = verify_ns if known is None else 0.7 * known + 0.3 * verify_ns

    def _pace(self, gamma: int) -> float:
        rate = min(0.999, self._accepted / self._judged)
        cost_ns = gamma * self._draft_ns / self._drafted + self._verify_ns(gamma)
        return expected_tokens_per_round(rate, gamma) / cost_ns if cost_ns > 0 else 0.0

    def _verify_ns(self, gamma: int) -> float:
        widths = sorted(self._verify)
        low, high = widths[0], widths[-1]
        if low == high:
            return self._verify[low]
        slope = max(0.0, (self._verify[high] - self._verify[low]) / (high - low))
        return max(1.0, self._verify[low] + slope * (gamma - low))


MOST_DRAFTED = 16
"""Tokens a round drafts at most where the number is not fixed."""


def draft_length(kind: str, gamma: int) -> DraftLength:
    most = max(gamma, MOST_DRAFTED)
    if kind == "heuristic":
        return Heuristic(gamma, most)
    return Budgeted(gamma, most) if kind == "budgeted" else DraftLength(gamma)
