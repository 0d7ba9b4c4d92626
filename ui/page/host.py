"""The embedded view: one page, from one origin, that can go nowhere else."""

from __future__ import annotations

import logging

from PySide6.QtCore import QEvent, Qt, QTimer, QUrl, Signal
from PySide6.QtWebEngineCore import (
    QWebEngineDownloadRequest,
    QWebEnginePage,
    QWebEnginePermission,
    QWebEngineProfile,
    QWebEngineSettings,
    QWebEngineUrlRequestInfo,
    QWebEngineUrlRequestInterceptor,
)
from PySide6.QtWebEngineWidgets import QWebEngineView
from PySide6.QtWidgets import QWidget
from shiboken6 import delete, isValid

LOGGER = logging.getLogger("nnjit.page")

_Level = QWebEnginePage.JavaScriptConsoleMessageLevel
_LEVELS = {
    _Level.InfoMessageLevel: logging.INFO,
    _Level.WarningMessageLevel: logging.WARNING,
    _Level.ErrorMessageLevel: logging.ERROR,
}
_SWITCHED_OFF = (
    QWebEngineSettings.WebAttribute.PluginsEnabled,
    QWebEngineSettings.WebAttribute.PdfViewerEnabled,
    QWebEngineSettings.WebAttribute.LocalStorageEnabled,
    QWebEngineSettings.WebAttribute.JavascriptCanOpenWindows,
    QWebEngineSettings.WebAttribute.JavascriptCanAccessClipboard,
    QWebEngineSettings.WebAttribute.HyperlinkAuditingEnabled,
    QWebEngineSettings.WebAttribute.DnsPrefetchEnabled,
    QWebEngineSettings.WebAttribute.FullScreenSupportEnabled,
    QWebEngineSettings.WebAttribute.ScreenCaptureEnabled,
)


class EngineView(QWebEngineView):
    """Shows the engine page of a hub.

    Call :meth:`shut_down` before the application ends; page and profile must
    go in that order.

    Parameters
    ----------
    url
        The hub's ``url``. Nothing of another origin is ever loaded.

    Signals
    -------
    page_lost : str
        The page's process ended, or the page could not be loaded; the reason.
    """

    page_lost = Signal(str)
    _made = False  # Qt calls changeEvent before there is a page

    def __init__(self, url: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)  # it offers to reload
        self._loaded = False
        self._url = QUrl(url)
        self._profile, self._page = confined_page(self._url)
        self._page.renderProcessTerminated.connect(self._on_terminated)
        self._page.loadFinished.connect(self._on_loaded)
        self.setPage(self._page)
        self._made = True

    def start(self) -> None:
        """Load the page, again if need be; :attr:`page_lost` tells when that fails."""
        self._loaded = False
        self._page.load(self._url)

    def shut_down(self) -> None:
        """End page, then profile; may be called again. Not from a slot of the page."""
        if not isValid(self._page):
            return
        self._page.renderProcessTerminated.disconnect(self._on_terminated)
        self._page.loadFinished.disconnect(self._on_loaded)
        delete(self._page)
        delete(self._profile)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._made and isValid(self._page):
            self._follow_theme()

    def _follow_theme(self) -> None:
        """Give the page the window's theme; Qt gives it only that of the system."""
        ground = self.palette().window().color()
        scheme = "dark" if ground.lightnessF() < 0.5 else "light"
        self._page.setBackgroundColor(ground)
        self._page.runJavaScript(f"document.documentElement.style.colorScheme = '{scheme}'")

    def _on_loaded(self, ok: bool) -> None:
        # A navigation that was refused later on counts as a failed load, too.
        self._loaded = self._loaded or ok
        self._follow_theme()
        if not self._loaded:
            self._lose("The embedded view could not load the page.")

    def _on_terminated(
        self, status: QWebEnginePage.RenderProcessTerminationStatus, code: int
    ) -> None:
        self._lose(f"The page's process ended: {status.name}, code {code}.")

    def _lose(self, reason: str) -> None:
        # A receiver may delete the view, which crashes inside the page's own call.
        QTimer.singleShot(0, self, lambda: self.page_lost.emit(reason))


def confined_page(
    url: QUrl, schemes: tuple[str, ...] = ()
) -> tuple[QWebEngineProfile, QWebEnginePage]:
    """A page with a profile of its own, off the record, that goes nowhere but to this origin.

    Page and profile must be deleted in that order. ``schemes`` are those that its requests may
    have besides, such as ``blob``.
    """
    profile = QWebEngineProfile()  # without a name: off the record
    interceptor = _SameOrigin(url, schemes)
    interceptor.setParent(profile)
    profile.setUrlRequestInterceptor(interceptor)
    profile.setSpellCheckEnabled(False)
    profile.downloadRequested.connect(_refuse_download)
    page = _EnginePage(profile, url)
    for attribute in _SWITCHED_OFF:
        page.settings().setAttribute(attribute, False)
    page.permissionRequested.connect(_refuse_permission)
    page.fileSystemAccessRequested.connect(lambda request: request.reject())
    return profile, page


class _EnginePage(QWebEnginePage):
    """Goes nowhere, opens nothing, and logs the lines of the console."""

    def __init__(self, profile: QWebEngineProfile, home: QUrl) -> None:
        super().__init__(profile)
        self._home = home

    def acceptNavigationRequest(
        self, url: QUrl | str, kind: QWebEnginePage.NavigationType, is_main_frame: bool
    ) -> bool:
        return is_main_frame and _same_origin(QUrl(url), self._home)

    def createWindow(self, kind: QWebEnginePage.WebWindowType) -> QWebEnginePage | None:  # type: ignore[override]
        return None

    def javaScriptConsoleMessage(
        self,
        level: QWebEnginePage.JavaScriptConsoleMessageLevel,
        message: str,
        line: int,
        source: str,
    ) -> None:
        place = QUrl(source).fileName() or "page"  # without the query, which holds the token
        LOGGER.log(_LEVELS[level], "%s:%d: %s", place, line, message)


class _SameOrigin(QWebEngineUrlRequestInterceptor):
    """Blocks every request that does not go to the page's origin."""

    def __init__(self, home: QUrl, schemes: tuple[str, ...]) -> None:
        super().__init__()
        self._home, self._schemes = home, schemes

    def interceptRequest(self, info: QWebEngineUrlRequestInfo) -> None:
        if info.requestUrl().scheme() in self._schemes:
            return
        if not _same_origin(info.requestUrl(), self._home):
            LOGGER.warning("A request to %s was blocked.", info.requestUrl().host())
            info.block(True)


def _same_origin(url: QUrl, home: QUrl) -> bool:
    return (
        url.scheme() in ("http", "ws") and url.host() == home.host() and url.port() == home.port()
    )


def _refuse_download(request: QWebEngineDownloadRequest) -> None:
    request.cancel()


def _refuse_permission(permission: QWebEnginePermission) -> None:
    permission.deny()
