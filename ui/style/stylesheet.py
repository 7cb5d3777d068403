"""The Qt style sheet of the window, as one template filled with a theme's colours.

Views say what a widget is with dynamic properties and never with colours:
    QLabel[role="head"]     section head: 11 px, upper case
    QLabel[role="dim"]      secondary text;  "title" a model's name;  "good"/"bad"/"warn" a judgement
    QLabel[role="chip"]     a small outlined tag;  "warn-chip" one that has to be seen;  "warn-bar" a warning
    QPushButton[role="primary"]  the one main action;  [role="quiet"] text only;  [role="link"] accent text
    QFrame[role="focus"]    the ring on what has the keyboard
    QFrame[role="rule"]     a one-pixel line;  QFrame[role="panel"] a panel's ground;  QFrame[role="card"] raised ground

Labels that Qt makes itself, those of tool tips and dialogs, show plain text by a line of the sheet: Qt would take a
name that looks like HTML for HTML and load what it points at. Labels of ours are `ui.widgets.label`'s.
"""

from __future__ import annotations

from string import Template

_TEMPLATE = Template("""
QMainWindow, QDialog { background: $window; color: $text; }
QWidget { color: $text; }
QToolTip { background: $raised; color: $text; border: 1px solid $line; padding: 4px 6px; }
QLabel { background: transparent; }
QLabel, QToolTip { qproperty-textFormat: PlainText; }
QLabel[role="head"] { color: $text_dim; font-size: ${small_pt}pt; font-weight: 600; }
QLabel[role="dim"] { color: $text_dim; }
QLabel:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled, QComboBox:disabled { color: $faint; }
QSpinBox:disabled, QDoubleSpinBox:disabled, QComboBox:disabled { background: transparent; }
QLabel[role="dim"]:disabled { color: $faint; }
QLabel[role="small"] { color: $text_dim; font-size: ${small_pt}pt; }
QLabel[role="title"] { color: $text; font-weight: 600; }
QLabel[role="good"] { color: $good; }
QLabel[role="accent"] { color: $accent; }
QLabel[role="bad"] { color: $bad; }
QLabel[role="warn"] { color: $warn; }
QLabel[role="chip"] { color: $text_dim; font-size: ${small_pt}pt; border: 1px solid $line; border-radius: 9px;
    padding: 1px 7px; }
QLabel[role="warn-chip"] { color: $warn; font-size: ${small_pt}pt; font-weight: 600; border: 1px solid $warn;
    border-radius: 9px; padding: 1px 7px; }
QLabel[role="warn-bar"] { color: $warn; background: $raised; border: none; border-left: 3px solid $warn;
    padding: 6px 10px; }
QFrame[role="rule"] { background: $line; border: none; max-height: 1px; min-height: 1px; }
QFrame[role="vrule"] { background: $line; border: none; max-width: 1px; min-width: 1px; }
QFrame[role="focus"] { background: transparent; border: 2px solid $accent; border-radius: 4px; }
QFrame[role="panel"], QWidget[role="panel"] { background: $panel; }
QFrame[role="card"] { background: $raised; border: 1px solid $line; border-radius: 6px; }
QPushButton, QToolButton { background: $raised; color: $text; border: 1px solid $line; border-radius: 5px;
    padding: 4px 10px; min-height: 18px; }
QPushButton:hover, QToolButton:hover { background: $hover; }
QPushButton:pressed, QToolButton:pressed, QToolButton:checked { background: $selection; }
QPushButton:focus, QToolButton:focus { border-color: $accent; }
QPushButton:disabled, QToolButton:disabled { color: $text_dim; background: $panel; }
QPushButton[role="primary"], QToolButton[role="primary"] { background: $accent; color: $accent_ink;
    border-color: $accent; font-weight: 600; }
QPushButton[role="primary"]:hover { border-color: $text; }
QPushButton[role="primary"]:disabled { background: $raised; color: $text_dim; border-color: $line; }
QPushButton[role="quiet"], QToolButton[role="quiet"] { background: transparent; border-color: transparent; }
QPushButton[role="quiet"]:hover, QToolButton[role="quiet"]:hover { background: $hover; }
QPushButton[role="chip"] { font-size: ${small_pt}pt; padding: 0 8px; min-height: 18px; max-height: 18px;
    border-radius: 10px; color: $accent; border-color: $accent; background: $panel; font-weight: 600; }
QPushButton[role="chip"]:hover { background: $selection; }
QPushButton[role="link"] { background: transparent; border: none; color: $accent; padding: 2px 0; text-align: left; }
QPushButton[role="link"]:disabled { color: $faint; background: transparent; }
QToolButton::menu-indicator, QPushButton::menu-indicator { image: none; width: 0; }
QAbstractScrollArea { background: transparent; border: none; }
QLineEdit, QPlainTextEdit, QSpinBox, QDoubleSpinBox, QComboBox { background: $window; color: $text;
    border: 1px solid $line; border-radius: 5px; padding: 4px 8px; min-height: 18px;
    selection-background-color: $selection; selection-color: $text; }
QTextEdit[role="answer"] { background: transparent; border: none; padding: 0; font-size: ${text_pt}pt;
    selection-background-color: $selection; selection-color: $text; }
QTableView[role="sheet"] { background: transparent; border: none; font-size: ${text_pt}pt;
    selection-background-color: $selection; selection-color: $text; }
QLineEdit:focus, QPlainTextEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus { border-color: $accent; }
QSpinBox::up-button, QSpinBox::down-button, QDoubleSpinBox::up-button, QDoubleSpinBox::down-button { width: 0; }
QComboBox { background: $raised; }
QComboBox::drop-down { border: none; width: 18px; }
QComboBox QAbstractItemView { background: $raised; border: 1px solid $line; selection-background-color: $selection;
    selection-color: $text; outline: none; }
QMenu { background: $raised; border: 1px solid $line; padding: 4px; }
QMenu::item { padding: 5px 24px 5px 12px; border-radius: 4px; }
QMenu::item:selected { background: $selection; color: $text; }
QMenu::item:disabled { color: $text_dim; }
QMenu::indicator { width: 6px; height: 6px; left: 5px; border-radius: 3px; }
QMenu::indicator:checked { background: $accent; }
QMenu::separator { height: 1px; background: $line; margin: 4px 8px; }
QMenuBar { background: $panel; border-bottom: 1px solid $line; }
QMenuBar::item { padding: 4px 8px; background: transparent; }
QMenuBar::item:selected { background: $selection; }
QStatusBar, QToolBar { background: $panel; border: none; }
QMainWindow::separator { background: $line; width: 1px; height: 1px; }
QMainWindow::separator:hover { background: $accent; }
QSplitter::handle { background: $line; }
QSplitter::handle:horizontal { width: 1px; }
QSplitter::handle:vertical { height: 1px; }
QSplitter::handle:hover { background: $accent; }
QTreeView, QListView, QTableView, QListWidget, QTreeWidget, QTableWidget { background: transparent; border: none;
    outline: none; selection-background-color: $selection; selection-color: $text; }
QHeaderView { background: transparent; border: none; }
QHeaderView::section { background: transparent; color: $text_dim; border: none; border-bottom: 1px solid $line;
    padding: 4px 7px; font-size: ${small_pt}pt; }
QTableCornerButton::section { background: transparent; border: none; border-bottom: 1px solid $line; }
QTableView[role="sheet"] QHeaderView::section:vertical { border: none; }
QTableView::item, QTreeView::item, QListView::item { padding: 3px 4px; border: none; }
QTableView[role="figures"]::item { padding: 2px 0; }
QTableView[role="figures"] QHeaderView::section { padding: 0; border: none; }
QTableView::item:selected, QTreeView::item:selected, QListView::item:selected { background: $selection; color: $text; }
QScrollBar { background: transparent; border: none; margin: 0; }
QScrollBar:vertical { width: 10px; }
QScrollBar:horizontal { height: 10px; }
QScrollBar::handle { background: $line; border-radius: 3px; margin: 2px; }
QScrollBar::handle:vertical { min-height: 24px; }
QScrollBar::handle:horizontal { min-width: 24px; }
QScrollBar::handle:hover { background: $text_dim; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QSlider::groove:horizontal { background: $line; height: 3px; border-radius: 1px; }
QSlider::sub-page:horizontal { background: $accent; height: 3px; border-radius: 1px; }
QSlider::handle:horizontal { background: $text; width: 10px; height: 10px; margin: -4px 0; border-radius: 5px; }
QProgressBar { background: $line; border: none; border-radius: 2px; max-height: 4px; min-height: 4px; }
QProgressBar::chunk { background: $accent; border-radius: 2px; }
QCheckBox::indicator, QRadioButton::indicator, QListView::indicator { width: 12px; height: 12px;
    border: 1px solid $text_dim;    background: $window; }
QCheckBox::indicator { border-radius: 3px; }
QRadioButton::indicator { border-radius: 7px; }
QCheckBox::indicator:checked, QRadioButton::indicator:checked,
QListView::indicator:checked { background: $accent; border-color: $accent; }
QTabBar { qproperty-drawBase: 0; }
QTabBar::tab { background: transparent; color: $text_dim; padding: 5px 10px; border: none;
    border-bottom: 2px solid transparent; }
QTabBar::tab:selected { color: $text; border-bottom-color: $accent; }
QTabWidget::pane { border: none; border-top: 1px solid $line; }
QGroupBox { border: 1px solid $line; border-radius: 6px; margin-top: 14px; padding: 8px; }
QGroupBox::title { subcontrol-origin: margin; left: 8px; color: $text_dim; font-size: ${small_pt}pt; }
""")


def sheet(colors: dict[str, str], *, small_pt: float, text_pt: float) -> str:
    """The style sheet for colours by name; sizes in points: `small_pt` of heads and chips, `text_pt` of answers."""
    return _TEMPLATE.substitute(colors, small_pt=f"{small_pt:.3f}", text_pt=f"{text_pt:.3f}")
