"""Numbers that strangers write, exactly as they stand; what cannot be reckoned with is none."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

_LONGEST = 40
_MOST_PLACES = 1000


def decimal_of(text: str) -> Decimal | None:
    """The finite number that a text is; None for others, and for those with a thousand places or more.

    Of 1e999999999 nothing can be computed: Decimal raises even where it is only compared.
    """
    try:
        number = Decimal(text.strip()) if len(text) <= _LONGEST else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() and abs(number.adjusted()) < _MOST_PLACES else None
