"""Changed settings, applied to the window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.window import preferences
from nnjit_studio.ui.window.backend_choice import BackendChoice


class SettingsControl:
    """Applies each setting: at once where that is possible, else from the next start on.

    ``budget_changed`` is called after another tuning budget was stored.
    """

    def __init__(
        self,
        host: Host,
        backend: BackendChoice,
        choose_theme: Callable[[str], object],
        budget_changed: Callable[[], object],
    ) -> None:
        self._host, self._backend = host, backend
        self._choose_theme, self._budget_changed = choose_theme, budget_changed

    def ask(self) -> None:
        """Show the settings and apply what the user changes."""
        values = preferences.read(self._host.settings)
        dialogs.show(preferences.PreferencesDialog(self._host.window, values, self.apply))

    def apply(self, changed: Mapping[str, Any]) -> None:
        """Apply values by the keys of their settings."""
        message = self._host.message
        for key, value in changed.items():
            if key == "theme":
                self._choose_theme(value)
            elif key == "backend":
                place = preferences.BY_KEY[key].choices.index(value)
                if not self._backend.choose(place):
                    message.say("Something is running: stop it, then change the backend.")
            else:
                self._host.settings.setValue(key, value)
                self._budget_changed()
        later = [preferences.BY_KEY[k].label for k in changed if preferences.BY_KEY[k].later]
        if later:
            message.say(f"From the next start on: {', '.join(later)}.")
