"""The style sheet of the window, from a theme's tokens."""

from __future__ import annotations

from importlib.resources import files

from nnjit_studio.ui.widgets.theme import PIXELS, Theme

_ICONS = (files("nnjit_studio.resources") / "icons").joinpath


def style_sheet(t: Theme) -> str:
    """All rules; widgets with rules of their own are found by their object names."""
    return "".join((_docks(t), _menus(t), _tables(t), _fields(t), _buttons(t), _named(t)))


def _image(name: str) -> str:
    path = str(_ICONS(name)).replace("\\", "/")
    return f'url("{path}")'


def _docks(t: Theme) -> str:
    return f"""
    QMainWindow {{ background: {t.window}; }}
    QMainWindow::separator {{ background: {t.window}; width: 6px; height: 6px; }}
    QMainWindow::separator:hover {{ background: {t.line}; }}
    QDockWidget {{ font-weight: 600; }}
    QDockWidget::title {{ background: {t.surface}; padding: 7px 10px 4px 10px;
        border-bottom: 1px solid {t.line}; }}
    QTabBar {{ qproperty-drawBase: 0; qproperty-elideMode: ElideNone; background: {t.window}; }}
    QTabBar::tab {{ background: transparent; color: {t.muted}; padding: 6px 9px;
        border: none; border-bottom: 2px solid transparent; }}
    QTabBar::tab:hover {{ color: {t.text}; }}
    QTabBar::tab:selected {{ color: {t.text}; font-weight: 600;
        border-bottom: 2px solid {t.accent}; }}
    QTabBar::tab:focus {{ color: {t.accent}; }}
    QTabWidget::pane {{ border: none; border-top: 1px solid {t.line}; }}
    QSplitter::handle {{ background: {t.line}; }}
    QSplitter::handle:horizontal {{ width: 1px; margin: 0 2px; }}
    QSplitter::handle:vertical {{ height: 1px; margin: 2px 0; }}
    QStatusBar {{ background: {t.window}; color: {t.muted}; }}
    QToolTip {{ background: {t.raised}; color: {t.text};
        border: 1px solid {t.line}; padding: 4px 6px; }}
    QGraphicsView, QPlainTextEdit {{ border: none; background: {t.surface}; }}
    QScrollBar {{ background: transparent; width: 10px; height: 10px; margin: 0; }}
    QScrollBar::handle {{ background: {t.line}; border-radius: 4px; margin: 1px; }}
    QScrollBar::handle:vertical {{ min-height: 24px; }}
    QScrollBar::handle:horizontal {{ min-width: 24px; }}
    QScrollBar::handle:hover {{ background: {t.edge}; }}
    QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
    QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
    """


def _menus(t: Theme) -> str:
    return f"""
    QMenuBar {{ background: {t.window}; padding: 2px 6px; }}
    QMenuBar::item {{ padding: 4px 9px; background: transparent; border-radius: 4px; }}
    QMenuBar::item:selected {{ background: {t.accent_soft}; color: {t.text}; }}
    QMenu {{ background: {t.surface}; border: 1px solid {t.line}; padding: 4px; }}
    QMenu::item {{ padding: 4px 26px 4px 8px; border-radius: 4px; }}
    QMenu::item:selected {{ background: {t.accent_soft}; color: {t.text}; }}
    QMenu::item:disabled {{ color: {t.edge}; }}
    QMenu::icon {{ padding-left: 6px; }}
    QMenu::separator {{ height: 1px; background: {t.line}; margin: 4px 6px; }}
    """


def _tables(t: Theme) -> str:
    return f"""
    QTableView {{ border: none; gridline-color: {t.grid}; background: {t.surface};
        selection-background-color: {t.accent_soft}; selection-color: {t.text}; }}
    QTableView::item {{ padding: 0 6px; }}
    QTableView::item:selected {{ background: {t.accent_soft}; color: {t.text}; }}
    QHeaderView {{ background: {t.raised}; }}
    QHeaderView::section {{ background: {t.raised}; color: {t.muted}; border: none;
        border-bottom: 1px solid {t.line}; padding: 4px 6px; }}
    QHeaderView::up-arrow, QHeaderView::down-arrow {{ subcontrol-position: top center;
        width: 9px; height: 7px; }}
    QHeaderView::up-arrow {{ image: {_image("arrow_up.svg")}; }}
    QHeaderView::down-arrow {{ image: {_image("arrow_down.svg")}; }}
    """


def _fields(t: Theme) -> str:
    return f"""
    QLineEdit, QTextEdit#field, QSpinBox, QDoubleSpinBox {{ background: {t.surface};
        border: 1px solid {t.edge};
        border-radius: 4px; padding: 3px 6px; selection-background-color: {t.accent};
        selection-color: {t.on_accent}; }}
    QLineEdit:focus, QTextEdit#field:focus, QSpinBox:focus, QDoubleSpinBox:focus {{
        border: 2px solid {t.accent}; padding: 2px 5px; }}
    QLineEdit:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled {{ background: {t.raised};
        color: {t.edge}; border-color: {t.line}; }}
    QSpinBox::up-button, QDoubleSpinBox::up-button, QSpinBox::down-button,
    QDoubleSpinBox::down-button {{ border: none; background: transparent; width: 16px; }}
    QSpinBox::up-arrow, QDoubleSpinBox::up-arrow {{ image: {_image("arrow_up.svg")};
        width: 11px; height: 11px; }}
    QSpinBox::down-arrow, QDoubleSpinBox::down-arrow {{ image: {_image("arrow_down.svg")};
        width: 11px; height: 11px; }}
    QComboBox {{ background: {t.surface}; border: 1px solid {t.edge}; border-radius: 4px;
        padding: 3px 6px; min-height: 18px; }}
    QComboBox:focus {{ border: 2px solid {t.accent}; padding: 2px 5px; }}
    QComboBox:disabled {{ background: {t.raised}; color: {t.edge}; border-color: {t.line}; }}
    QComboBox::drop-down {{ border: none; width: 18px; }}
    QComboBox::down-arrow {{ image: {_image("arrow_down.svg")}; width: 13px; height: 13px; }}
    QComboBox QAbstractItemView {{ background: {t.surface}; border: 1px solid {t.line};
        selection-background-color: {t.accent_soft}; selection-color: {t.text}; }}
    QCheckBox {{ spacing: 6px; }}
    QCheckBox::indicator, QGroupBox::indicator {{ width: 13px; height: 13px;
        border: 1px solid {t.edge}; border-radius: 3px; background: {t.surface}; }}
    QCheckBox::indicator:checked, QGroupBox::indicator:checked {{ background: {t.accent};
        border-color: {t.accent}; image: {_image(f"tick_{t.name}.svg")}; }}
    QCheckBox::indicator:disabled {{ background: {t.raised}; border-color: {t.line}; }}
    QCheckBox::indicator:checked:disabled {{ background: {t.edge}; }}
    QCheckBox::indicator:focus {{ border: 2px solid {t.accent}; }}
    QSlider::groove:horizontal {{ background: {t.grey_soft}; height: 4px; border-radius: 2px; }}
    QSlider::sub-page:horizontal {{ background: {t.accent}; height: 4px; border-radius: 2px; }}
    QSlider::handle:horizontal {{ background: {t.surface}; border: 2px solid {t.accent};
        width: 10px; margin: -5px 0; border-radius: 7px; }}
    QProgressBar {{ background: {t.grey_soft}; border: none; border-radius: 2px;
        max-height: 4px; }}
    QProgressBar::chunk {{ background: {t.accent}; border-radius: 2px; }}
    """


def _buttons(t: Theme) -> str:
    return f"""
    QPushButton {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.edge};
        border-radius: 4px; padding: 4px 12px; font-weight: 500; }}
    QPushButton {{ outline: none; }}  /* its border tells the focus */
    QPushButton:hover {{ background: {t.raised}; }}
    QPushButton:pressed, QPushButton:checked {{ background: {t.accent_soft};
        border-color: {t.accent}; }}
    QPushButton:focus {{ border: 2px solid {t.accent}; padding: 3px 11px; }}
    QPushButton[low="true"] {{ padding: 1px 12px; }}
    QPushButton[low="true"]:focus {{ padding: 0 11px; }}
    QPushButton:disabled {{ background: {t.raised}; color: {t.edge}; border-color: {t.line}; }}
    QPushButton:flat {{ border: 1px solid transparent; background: transparent;
        text-align: left; padding: 4px 8px; }}
    QPushButton:flat:hover {{ background: {t.accent_soft}; }}
    QPushButton#primary {{ background: {t.accent}; color: {t.on_accent};
        border: 1px solid {t.accent}; font-weight: 600; }}
    QPushButton#danger {{ color: {t.bad}; border: 1px solid {t.bad}; background: {t.bad_soft}; }}
    QPushButton#primary:focus {{ border: 2px solid {t.text}; }}
    QPushButton#primary:disabled {{ background: {t.grey_soft}; color: {t.edge};
        border-color: {t.line}; }}
    QToolButton {{ border: 1px solid transparent; border-radius: 4px; padding: 3px 6px;
        background: transparent; }}
    QToolButton:hover {{ background: {t.raised}; border-color: {t.line}; }}
    QToolButton:checked {{ background: {t.accent_soft}; border-color: {t.accent}; }}
    QToolButton:focus {{ border-color: {t.accent}; }}
    QToolButton:disabled {{ color: {t.edge}; }}
    QToolButton[popupMode="2"] {{ padding-right: 14px; }}
    QToolButton::menu-button {{ border: none; }}
    QToolButton::menu-indicator {{ subcontrol-origin: padding;
        subcontrol-position: center right; }}
    QTabBar QToolButton {{ padding: 0; color: {t.text}; background: {t.window}; }}
    QTabBar::scroller {{ width: 22px; }}
    """


def _named(t: Theme) -> str:
    tones = "".join(
        f'#message[tone="{tone}"] {{ border-left: 4px solid {colour}; }}'
        for tone, colour in (("bad", t.bad), ("good", t.good), ("plain", t.accent))
    )
    return f"""
    #panel {{ background: {t.surface}; }}
    #header {{ background: {t.surface}; border-bottom: 1px solid {t.line}; }}
    #drop {{ background: {t.raised}; border: 1px dashed {t.edge}; border-radius: 6px; }}
    #card {{ background: {t.surface}; border: 1px solid {t.line}; border-radius: 6px; }}
    #muted, #empty {{ color: {t.muted}; }}
    #good {{ color: {t.good}; }}
    #bad {{ color: {t.bad}; }}
    QLineEdit[wrong="true"] {{ border-color: {t.bad}; }}
    #badge {{ color: {t.warn}; background: {t.warn_soft}; border: 1px solid {t.warn};
        border-radius: 10px; padding: 2px 8px; font-size: {PIXELS["caption"]}px; }}
    #message {{ background: {t.raised}; border-bottom: 1px solid {t.line}; }}
    {tones}
    """
