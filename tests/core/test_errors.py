"""The error a person reads."""

from __future__ import annotations

import pickle

from evprof.core.errors import FAILURE, USAGE, UserError


def test_a_sentence_and_an_exit_code():
    error = UserError("The file is gone; choose another.")
    assert (str(error), error.sentence, error.exit_code) == ("The file is gone; choose another.",) * 2 + (FAILURE,)
    assert UserError("Wrong.", exit_code=USAGE).exit_code == 2


def test_it_survives_the_way_between_processes():
    again = pickle.loads(pickle.dumps(UserError("Wrong.", exit_code=USAGE)))
    assert (again.sentence, again.exit_code) == ("Wrong.", USAGE)
