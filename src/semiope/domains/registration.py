"""Tells Gymnasium about our environments as soon as both are imported, in whatever order; imports neither."""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ID = "semiope/Sepsis-v0"


def register_when_loaded() -> None:
    """Register now if Gymnasium is imported, else when it will be."""
    if "gymnasium" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _Watcher())


def register() -> None:
    """Add the environments to Gymnasium's registry."""
    from gymnasium.envs.registration import register as add
    from gymnasium.envs.registration import registry

    if ID not in registry:
        add(id=ID, entry_point="semiope.domains.environment:SepsisEnv")


class _Watcher(MetaPathFinder):
    """Lets Gymnasium be imported as ever, and registers afterwards."""

    _looking = False

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        if self._looking:  # the search below comes here again
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                # Only an import that happens ends the watch; a mere search for Gymnasium does not.
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                load(module)
                register()

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec
