"""Boxes in boxes: where their parts stand, and that nothing of Qt's is held on to."""

from __future__ import annotations

import gc

from PySide6.QtWidgets import QApplication, QLabel, QLayoutItem, QSpacerItem, QWidget, QWidgetItem

from kept import Keep
from ui.widgets.boxes import beside, put_parts, stacked


def held_places() -> list[QLayoutItem]:
    """The places of boxes that Python has objects of; Qt deletes them with their widget."""
    return [one for one in gc.get_objects() if type(one) in (QSpacerItem, QWidgetItem)]


def test_boxes_in_boxes_stand_as_they_are_told_and_hold_on_to_no_place(application: QApplication, keep: Keep) -> None:
    before = len(held_places())
    ground = keep(QWidget())
    ground.resize(300, 200)
    labels = [QLabel(text) for text in "abcd"]
    a, b, c, d = labels
    inmost = stacked(c, None, d, spacing=0)
    stacked(beside(a, 40, b, None, inmost, spacing=0), None, on=ground, spacing=0)
    ground.show()
    application.processEvents()
    assert len(held_places()) == before
    assert b.x() == a.x() + a.width() + 40
    assert c.geometry().right() == ground.rect().right()
    assert d.y() >= c.y() + c.height()


def test_a_box_put_elsewhere_gets_its_parts_as_well(keep: Keep) -> None:
    ground, one, other = keep(QWidget()), QLabel("one"), QLabel("other")
    column = stacked(on=ground)
    box = beside(one, None, other)
    column.addLayout(box)
    put_parts(box)
    put_parts(box)
    assert [one.parent(), other.parent()] == [ground, ground]
    assert box.count() == 3
