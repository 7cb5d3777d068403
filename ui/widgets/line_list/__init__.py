"""A list of lines: a name left, a word or figure right, optionally a second line below; the parts of the left dock."""

from ui.widgets.line_list.line import ListLine, PagedLines
from ui.widgets.line_list.view import LineList

__all__ = ["LineList", "ListLine", "PagedLines"]
