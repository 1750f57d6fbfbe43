"""Whether to trust an estimate.

The room bears the name of the function `so.diagnose`. Once any of it is imported, Python puts the room in the place of
the function, and so the room can be called like it.
"""

import importlib
import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        return importlib.import_module("semiope.pipeline").diagnose(*args, **options)


sys.modules[__name__].__class__ = _Room
