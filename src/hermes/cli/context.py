"""What every command gets, and what it returns."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.settings.home import Home
    from hermes.settings.load import Settings

OK, REFUSED, USAGE = 0, 1, 2


class Context:
    """What every command gets: where home is and what its settings say, found out when first asked."""

    def __init__(
        self, home: str | None, profile: str | None, user: str | None, run: Callable[[list[str], Context], int]
    ) -> None:
        self._given = (home, profile)
        self._run = run
        self._user = user
        self._home: Home | None = None
        self._settings: Settings | None = None

    @property
    def home(self) -> Home:
        if self._home is None:
            from hermes.settings.home import locate_home

            self._home = locate_home(*self._given)
            if self._user is not None:
                from hermes.settings.home import person_home

                self._home = person_home(self._home, self._user)
        return self._home

    @property
    def root(self) -> str | None:
        """The `--home` that was given, before any profile."""
        return self._given[0]

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            from hermes.settings.load import load_settings

            self._settings = load_settings(self.home)
        return self._settings

    def run(self, words: list[str]) -> int:
        """Another command on the same home, as the chat runs them."""
        return self._run(words, self)
