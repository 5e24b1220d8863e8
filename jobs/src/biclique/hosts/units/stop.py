"""Whether one attempt at running a tier is to end: once anybody has heard so, it is, whatever is said afterwards.

A query may be suspended and resumed within a second. Of the units of a tier some have ended by then and others have
heard nothing; were the first not to begin again, and the others to run on, the tier would look alive and do nothing.
So the attempt ends as a whole, and whoever looks after the tier starts the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Stop:
    """`said`: whether it is, as anybody who asks would be told at the moment. `turned`: called whenever the main thread
    asks: a driver's asks wherever it waits, which is the sign that it is alive."""

    def __init__(self, said: Callable[[], bool] = lambda: False, turned: Callable[[], None] = lambda: None) -> None:
        self._said, self._turned, self._heard = said, turned, threading.Event()

    def __call__(self) -> bool:
        if threading.current_thread() is threading.main_thread():
            self._turned()
        if not self._heard.is_set() and self._said():
            self._heard.set()
        return self._heard.is_set()

    def heard(self) -> None:
        """By somebody who asks for himself, as a unit does where the control port is a folder."""
        self._heard.set()
